"""Findings: what a search found, certified against everything it did, and the short list of it that is published."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from maabo_dist.findings import certificate
from maabo_dist.findings.candidates import CandidateRules, ConditionTable, find_candidates, support
from maabo_dist.findings.certificate import LEVEL, ShuffledSearch
from maabo_dist.findings.evidence import NO_CONDITION, Floats
from maabo_dist.findings.selection import Group, choose_findings
from maabo_dist.rules.leaves import Leaves
from maabo_dist.rules.statistics import portable_log
from maabo_dist.settings import MiningSettings
from maabo_dist.study import Study

# Rules that a search on shuffled labels reports: more than the certified ones that a step-down may exclude.
MAX_REPORTED = 100
# A finding needs this much more evidence, in ln p, than certification alone. At the limit itself, few rules are
# confirmed by a sample a third as large.
MARGIN = 3.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """The supported rules of a search, and how strong each is."""

    rules: CandidateRules
    table: ConditionTable
    # (rules): see `certificate`; the smaller, the stronger.
    statistics: Floats
    log_bounds: Floats

    @classmethod
    def collect(cls, leaves: Leaves, study: Study) -> "Evidence":
        """Turn the leaves of a search into supported rules."""
        candidates, table = find_candidates(leaves, study)
        rules = support(candidates, table, study.settings.significance)
        statistics = certificate.statistics(rules, table)
        lengths, classes = rules.conditions.shape[1], len(study.columns.classes)
        return cls(rules, table, statistics, certificate.log_bounds(statistics, lengths, classes))

    @property
    def logic(self) -> list[tuple[int, ...]]:
        """The literals of each rule, ascending, without thresholds."""
        rules = self.rules.conditions
        return [tuple(sorted(self.table.literals[rule[rule != NO_CONDITION]].tolist())) for rule in rules]

    def strongest(self) -> ShuffledSearch:
        """Return the strongest rule of each logic set, for a comparison with another search."""
        logic, order = self.logic, np.argsort(self.statistics, kind="stable").tolist()
        best: dict[tuple[int, ...], float] = {}
        for rule in order:
            best.setdefault(logic[rule], float(self.statistics[rule]))
        reported = list(best.items())[:MAX_REPORTED]
        return ShuffledSearch(tuple(value for _, value in reported), tuple(literals for literals, _ in reported))

    def is_decided(self) -> bool:
        """True if shuffled searches would certify nothing that the bound does not."""
        certified = certificate.certify(self.statistics, self.log_bounds, self.logic, [])
        return bool((certified <= _log(LEVEL)).all())


@dataclass(frozen=True, slots=True)
class Findings:
    """The published findings, best first, and the certificate of every supported rule."""

    evidence: Evidence
    # (rules): ln of the adjusted p-value.
    log_p: Floats
    # Indices of the rules that meet all limits.
    eligible: npt.NDArray[np.int64]
    # Of these, by their index among all rules.
    groups: tuple[Group, ...]


def choose(evidence: Evidence, searches: Sequence[ShuffledSearch], settings: MiningSettings) -> Findings:
    """Certify the rules, and choose among those that meet the limits of the settings."""
    rules = evidence.rules
    log_p = certificate.certify(evidence.statistics, evidence.log_bounds, evidence.logic, searches)
    eligible = np.flatnonzero(log_p <= _log(LEVEL) - MARGIN)
    groups = choose_findings(rules.take(eligible), evidence.table)
    return Findings(
        evidence,
        log_p,
        eligible,
        tuple(Group(int(eligible[group.head]), tuple(eligible[list(group.others)].tolist())) for group in groups),
    )


def _log(value: float) -> float:
    return float(portable_log(np.array([value]))[0])
