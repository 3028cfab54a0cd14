"""The order in which jobs send their tasks."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.dispatch import FairOrder, JobLoad


def sent_by(loads, room, seconds=1.0):
    fair, sent = FairOrder(loads), Counter()
    for _ in range(room):
        job = fair.next_job
        if job is None:
            break
        sent[job] += 1
        fair.add_load(seconds)
    return sent


def test_a_tenant_with_many_jobs_gets_no_more_than_one_with_a_single_job():
    many = [JobLoad(f"a{number}", "ann", 16, 0.0) for number in range(1000)]

    sent = sent_by([*many, JobLoad("b", "bob", 1, 0.0)], 100)

    assert sent["b"] == 50
    assert max(sent[job] for job in sent if job != "b") == 1


def test_the_jobs_of_a_tenant_share_by_priority():
    jobs = [JobLoad("high", "ann", 16, 0.0), JobLoad("normal", "ann", 4, 0.0), JobLoad("low", "ann", 1, 0.0)]

    assert sent_by([*jobs, JobLoad("b", "bob", 1, 0.0)], 84) == Counter(high=32, normal=8, low=2, b=42)


def test_tasks_in_flight_count_towards_the_share():
    sent = sent_by([JobLoad("a", "ann", 4, 10.0), JobLoad("b", "bob", 4, 0.0)], 14)

    assert sent == Counter(a=2, b=12)


def test_the_unused_share_of_a_tenant_is_given_to_the_others():
    fair = FairOrder([JobLoad("a1", "ann", 4, 0.0), JobLoad("a2", "ann", 1, 0.0), JobLoad("b", "bob", 4, 5.0)])

    order = []
    for has_more in (False, True, False, True, True, False):
        order.append(fair.next_job)
        fair.add_load(1.0) if has_more else fair.remove_next()

    assert order == ["a1", "a2", "a2", "b", "b", "b"]
    assert fair.next_job is None


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([1, 4, 16]), st.integers(0, 3)), max_size=12),
    st.integers(0, 60),
)
def test_no_tenant_is_ahead_of_another_that_could_still_send(jobs, slots):
    loads = [JobLoad(f"j{number}", tenant, share, 0.0) for number, (tenant, share, _) in enumerate(jobs)]
    left = {f"j{number}": tasks for number, (_, _, tasks) in enumerate(jobs)}
    tenant_of, sent, fair = {one.job: one.tenant for one in loads}, Counter(), FairOrder(loads)
    while slots and (job := fair.next_job) is not None:
        if left[job]:
            left[job] -= 1
            slots -= 1
            sent[tenant_of[job]] += 1
            fair.add_load(1.0)
        else:
            fair.remove_next()

    waiting = {tenant_of[job] for job, tasks in left.items() if tasks}
    assert slots == 0 or not waiting
    assert all(sent[tenant] >= max(sent.values(), default=0) - 1 for tenant in waiting)
