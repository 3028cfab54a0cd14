"""About how much work a search is: its plan and the size of its table in, seconds of one core out.

An estimate for people who are about to start one. It leaves out what no table tells beforehand: how soon leaves are
pure, how many rules there are to choose from, and how fast the machines are.
"""

from maabo_dist.screens import count_pairs, pair_seconds
from maabo_dist.settings import MiningSettings, SearchPlan

SECONDS_A_TREE, SECONDS_A_CELL = 16e-6, 1.5e-9
"""What a tree costs for itself, and for each training row of each of its features at each depth.

From `make bench`: 36 µs for 916 rows and 325 µs for 14,000 rows, both with 3 features and depth 5.
"""

SECONDS_A_BATCH = 11e-3
"""From one batch to the next on a cluster, beside the growing of its trees: `make bench-cluster`."""


def core_seconds(plan: SearchPlan, settings: MiningSettings, *, rows: int, classes: int) -> float:
    """For a table of so many rows and classes; the split takes its share of the rows."""
    training = rows * (1 - settings.holdout) * (1 - settings.test_size)
    cells = training * plan.subset_size * settings.max_depth
    trees = plan.trees * (SECONDS_A_TREE + SECONDS_A_CELL * cells)
    return trees + (_screen_seconds(plan, round(training), classes) if plan.screened else 0.0)


def round_trip_seconds(plan: SearchPlan) -> float:
    """How long a cluster takes to send batches and hear of them, whatever is grown; they overlap where several may."""
    return SECONDS_A_BATCH * plan.trees / (plan.batch * plan.in_flight)


def _screen_seconds(plan: SearchPlan, rows: int, classes: int) -> float:
    return count_pairs(0, plan.features, plan.features) * pair_seconds(rows, classes)
