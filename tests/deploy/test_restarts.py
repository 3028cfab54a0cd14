"""When a part is started again: pure decisions."""

from deploy.local.restarts import Restarts


def ends(restarts, times):
    """The delays that follow when a part ends at these times."""
    delays = []
    for now in times:
        restarts, delay = restarts.ended(now)
        delays.append(delay)
    return delays


def test_the_delay_doubles_up_to_ten_seconds():
    part = Restarts().healthy(0)

    assert ends(part, range(1, 8)) == [0.5, 1, 2, 4, 8, 10, 10]


def test_half_a_minute_of_health_makes_the_delay_short_again():
    part, _ = Restarts().healthy(0).ended(1)
    part, _ = part.ended(2)

    assert ends(part.healthy(10), [39.9]) == [2]
    assert ends(part.healthy(10), [40.0]) == [0.5]


def test_the_time_a_part_was_down_is_no_health():
    part, _ = Restarts().healthy(0).ended(1)

    assert ends(part, [100]) == [1]


def test_a_part_that_was_never_healthy_is_given_up_after_five_quick_ends():
    assert ends(Restarts(), [1, 3, 6, 11, 20]) == [0.5, 1, 2, 4, None]


def test_ends_that_lie_far_apart_are_no_reason_to_give_up():
    assert None not in ends(Restarts(), [10, 20, 30, 40, 50, 60])


def test_a_part_that_was_healthy_once_is_never_given_up():
    part = Restarts().healthy(0)

    assert None not in ends(part, range(1, 30))
