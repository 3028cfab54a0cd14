"""Searches on shuffled labels, which certify what the bound leaves undecided."""

from dataclasses import replace

from maabo_dist.contract.result import StopReason
from maabo_dist.findings.certificate import ShuffledSearch
from maabo_dist.findings.findings import Evidence
from maabo_dist.mining.run import SearchRun, drive
from maabo_dist.rules.publishing import TreePool
from maabo_dist.screens.pairs import compute_screen
from maabo_dist.search.plan import planned_shuffles
from maabo_dist.study import Study


def count_shuffles(study: Study, evidence: Evidence) -> int:
    """Return the number of searches that the settings ask for, or that may decide something at a small cost."""
    if study.settings.certify == "auto" and evidence.is_decided():
        return 0
    return planned_shuffles(study.plan, study.settings, rows=study.columns.rows, classes=len(study.columns.classes))


def run_shuffles(study: Study, evidence: Evidence) -> list[ShuffledSearch]:
    """Run the searches one after another; none counts if Ctrl-C ends them."""
    try:
        return [search_shuffled(study, number) for number in range(count_shuffles(study, evidence))]
    except KeyboardInterrupt:
        return []


def search_shuffled(study: Study, number: int) -> ShuffledSearch:
    """Run the whole search again on labels in another order, and return its strongest rules.

    It grows all trees of the plan: with patience it would end long before a search that finds rules, and give chance
    fewer opportunities.
    """
    shuffled = study.with_shuffled_labels(number)
    shuffled = replace(shuffled, settings=shuffled.settings.model_copy(update={"patience": None}))
    pool = TreePool(shuffled)
    screen = None
    if shuffled.plan.screened:
        screen = compute_screen(shuffled.columns, shuffled.split, shuffled.table.root_scores)
    if drive(SearchRun(shuffled, pool, screen), shuffled) is StopReason.INTERRUPTED:
        raise KeyboardInterrupt
    return Evidence.collect(pool.leaves.distinct(), shuffled).strongest()
