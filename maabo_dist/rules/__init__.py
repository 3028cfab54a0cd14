"""From trees to rules: reliable leaves, GS-MRM, and the evidence for what is kept."""

from maabo_dist.rules.leaves import LeafFilter, Leaves, literal_width, reliable_leaves
from maabo_dist.rules.noise import NoiseEstimate, estimate_noise, probe_free
from maabo_dist.rules.pool import LeafPool, TreePool, best_of
from maabo_dist.rules.pruning import Pruned, dropped_conditions, prune
from maabo_dist.rules.publish import TreeRecords, choose, publish, rules_digest
from maabo_dist.rules.rule import Condition, Displaced, HeldOut, Op, Rule, Source, Support
from maabo_dist.rules.selection import Selection, best_of_each, by_logic, by_rows, select_by_logic, select_rules

__all__ = [
    "Condition",
    "Displaced",
    "HeldOut",
    "LeafFilter",
    "LeafPool",
    "Leaves",
    "NoiseEstimate",
    "Op",
    "Pruned",
    "Rule",
    "Selection",
    "Source",
    "Support",
    "TreePool",
    "TreeRecords",
    "best_of",
    "best_of_each",
    "by_logic",
    "by_rows",
    "choose",
    "dropped_conditions",
    "estimate_noise",
    "literal_width",
    "probe_free",
    "prune",
    "publish",
    "reliable_leaves",
    "rules_digest",
    "select_by_logic",
    "select_rules",
]
