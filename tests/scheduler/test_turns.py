"""Whose task is sent next."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.dispatch import Entrant, Turns


def sent_by(entrants, room, seconds=1.0):
    turns, sent = Turns(entrants), Counter()
    for _ in range(room):
        job = turns.next()
        if job is None:
            break
        sent[job] += 1
        turns.sent(seconds)
    return sent


def test_a_tenant_with_many_jobs_gets_no_more_than_one_with_a_single_job():
    many = [Entrant(f"a{number}", "ann", 16, 0.0) for number in range(1000)]

    sent = sent_by([*many, Entrant("b", "bob", 1, 0.0)], 100)

    assert sent["b"] == 50
    assert max(sent[job] for job in sent if job != "b") == 1


def test_the_jobs_of_a_tenant_share_by_priority():
    jobs = [Entrant("high", "ann", 16, 0.0), Entrant("normal", "ann", 4, 0.0), Entrant("low", "ann", 1, 0.0)]

    assert sent_by([*jobs, Entrant("b", "bob", 1, 0.0)], 84) == Counter(high=32, normal=8, low=2, b=42)


def test_what_is_under_way_counts():
    sent = sent_by([Entrant("a", "ann", 4, 10.0), Entrant("b", "bob", 4, 0.0)], 14)

    assert sent == Counter(a=2, b=12)


def test_what_a_tenant_does_not_need_goes_to_the_others():
    turns = Turns([Entrant("a1", "ann", 4, 0.0), Entrant("a2", "ann", 1, 0.0), Entrant("b", "bob", 4, 5.0)])

    order = []
    for has_more in (False, True, False, True, True, False):
        order.append(turns.next())
        turns.sent(1.0) if has_more else turns.passed()

    assert order == ["a1", "a2", "a2", "b", "b", "b"]
    assert turns.next() is None


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([1, 4, 16]), st.integers(0, 3)), max_size=12),
    st.integers(0, 60),
)
def test_no_tenant_is_ahead_of_another_that_could_still_send(given, room):
    entrants = [Entrant(f"j{number}", tenant, share, 0.0) for number, (tenant, share, _) in enumerate(given)]
    left = {f"j{number}": tasks for number, (_, _, tasks) in enumerate(given)}
    tenant_of, sent, turns = {one.job: one.tenant for one in entrants}, Counter(), Turns(entrants)
    while room and (job := turns.next()) is not None:
        if left[job]:
            left[job] -= 1
            room -= 1
            sent[tenant_of[job]] += 1
            turns.sent(1.0)
        else:
            turns.passed()

    waiting = {tenant_of[job] for job, tasks in left.items() if tasks}
    assert room == 0 or not waiting
    assert all(sent[tenant] >= max(sent.values(), default=0) - 1 for tenant in waiting)
