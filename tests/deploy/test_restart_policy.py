"""When a component that exited is restarted."""

from deploy.local.supervisor import RestartPolicy


def delays_after(policy, times):
    """Return the delays if the component exits at these times."""
    delays = []
    for now in times:
        policy, delay = policy.after_exit(now)
        delays.append(delay)
    return delays


def test_the_delay_doubles_up_to_ten_seconds():
    policy = RestartPolicy().after_health(0)

    assert delays_after(policy, range(1, 8)) == [0.5, 1, 2, 4, 8, 10, 10]


def test_half_a_minute_of_health_resets_the_delay():
    policy, _ = RestartPolicy().after_health(0).after_exit(1)
    policy, _ = policy.after_exit(2)

    assert delays_after(policy.after_health(10), [39.9]) == [2]
    assert delays_after(policy.after_health(10), [40.0]) == [0.5]


def test_downtime_does_not_count_as_health():
    policy, _ = RestartPolicy().after_health(0).after_exit(1)

    assert delays_after(policy, [100]) == [1]


def test_a_component_that_was_never_healthy_is_given_up_after_five_quick_exits():
    assert delays_after(RestartPolicy(), [1, 3, 6, 11, 20]) == [0.5, 1, 2, 4, None]


def test_a_component_with_rare_exits_is_always_restarted():
    assert None not in delays_after(RestartPolicy(), [10, 20, 30, 40, 50, 60])


def test_a_component_that_was_healthy_once_is_never_given_up():
    policy = RestartPolicy().after_health(0)

    assert None not in delays_after(policy, range(1, 30))
