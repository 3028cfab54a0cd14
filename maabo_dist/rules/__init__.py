"""From trees to rules: reliable leaves, GS-MRM, and the evidence for what is kept."""

from maabo_dist.rules.leaves import LeafFilter, Leaves, literal_width, reliable_leaves
from maabo_dist.rules.noise import NoiseEstimate, estimate_noise, probe_free
from maabo_dist.rules.pool import LeafPool, TreePool, best_of
from maabo_dist.rules.pruning import Pruned, prune
from maabo_dist.rules.publishing import TreeRecords, choose, publish, rules_digest
from maabo_dist.rules.refitting import refit
from maabo_dist.rules.rule import ConditionTest, Displaced, HeldOut, Rule, Source, Support
from maabo_dist.rules.selection import Selection, best_of_each, by_logic, by_rows, select_by_logic, select_rules
from maabo_dist.rules.support import Reasons, reasons

__all__ = [
    "ConditionTest",
    "Displaced",
    "HeldOut",
    "LeafFilter",
    "LeafPool",
    "Leaves",
    "NoiseEstimate",
    "Pruned",
    "Reasons",
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
    "estimate_noise",
    "literal_width",
    "probe_free",
    "prune",
    "publish",
    "reasons",
    "refit",
    "reliable_leaves",
    "rules_digest",
    "select_by_logic",
    "select_rules",
]
