"""Searches on shuffled labels, which certify what the bound leaves undecided."""

from math import ceil

from maabo_dist.findings.certificate import BOUND_SHARE, LEVEL, ShuffledSearch
from maabo_dist.findings.findings import Evidence
from maabo_dist.mining.run import SearchRun, drive
from maabo_dist.rules.publishing import TreePool
from maabo_dist.screens.pairs import compute_screen
from maabo_dist.search.plan import core_seconds
from maabo_dist.study import Study

# The fewest searches that can certify a rule at the level that they have: 24 for 4 %.
MIN_SHUFFLES = ceil(1 / (LEVEL * (1 - BOUND_SHARE))) - 1
# Without a number from the user, searches are run if they take about this long on one core, by the plan's estimate:
# measured time would make the result depend on the machine.
MAX_SECONDS = 6.0


def count_shuffles(study: Study, evidence: Evidence) -> int:
    """Return the number of searches that the settings ask for, or that may decide something at a small cost."""
    certify = study.settings.certify
    if certify == "off":
        return 0
    if certify != "auto":
        return int(certify)
    seconds = core_seconds(study.plan, study.settings, rows=study.columns.rows, classes=len(study.columns.classes))
    return 0 if evidence.is_decided() or MIN_SHUFFLES * seconds > MAX_SECONDS else MIN_SHUFFLES


def search_shuffled(study: Study, number: int) -> ShuffledSearch:
    """Run the whole search again on labels in another order, and return its strongest rules."""
    shuffled = study.with_shuffled_labels(number)
    pool = TreePool(shuffled)
    screen = None
    if shuffled.plan.screened:
        screen = compute_screen(shuffled.columns, shuffled.split, shuffled.table.root_scores)
    drive(SearchRun(shuffled, pool, screen), shuffled)
    return Evidence.collect(pool.leaves.distinct(), shuffled).strongest()
