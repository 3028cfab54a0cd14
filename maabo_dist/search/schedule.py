"""The schedule of batches: when each is proposed, and from which results.

The schedule depends on the plan alone. Batch k is proposed when exactly the first `needs` batches have been observed,
no matter how many results have arrived by then; so the number of workers and their speed cannot change a result.

The subsets in flight ramp up: never more of them than max(N_I, subsets observed). A wide search would otherwise spend
its budget on subsets proposed from hardly any scores.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from maabo_dist.search.plan import SearchPlan


@dataclass(frozen=True, slots=True)
class Batch:
    """One proposal of the schedule."""

    number: int
    size: int
    # The number of batches that must have been observed when this one is proposed, no more and no fewer.
    needs: int


def batch_schedule(plan: SearchPlan, *, guided: bool) -> Iterator[Batch]:
    """Yield the batches of a search. A search that is not guided by scores needs no ramp."""
    initial = plan.initial if guided else plan.trees
    sizes: list[int] = []
    proposed = observed = observed_batches = 0  # subsets proposed, subsets observed, batches observed
    while proposed < plan.trees:
        random_left = initial - proposed
        requested = min(plan.batch, random_left if random_left > 0 else plan.trees - proposed)
        while observed_batches < len(sizes) and not _fits(
            plan, initial, requested, proposed, observed, len(sizes) - observed_batches
        ):
            observed += sizes[observed_batches]
            observed_batches += 1
        size = min(requested, max(initial, observed) - (proposed - observed))
        yield Batch(len(sizes), size, observed_batches)
        sizes.append(size)
        proposed += size


def _fits(plan: SearchPlan, initial: int, requested: int, proposed: int, observed: int, batches: int) -> bool:
    """True if `wanted` more subsets may be in flight in addition to the `batches` batches that are."""
    if batches >= plan.in_flight:
        return False
    if proposed >= initial > observed:  # the first guided batch waits for all random ones
        return False
    return proposed - observed + requested <= max(initial, observed)
