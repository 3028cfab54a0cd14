"""Classes without a finding: why, which rule came nearest, and which settings show it.

Settings are named only if they were tried: the rules that this search supported are chosen again with them, and the
nearest rule has to be among those chosen. Nothing is searched again, since none of these settings affects the search.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, exp, floor, log10
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist.contract.reasons import missing_text
from maabo_dist.contract.selection import MissingClassRecord, MissingReason, NearestRecord
from maabo_dist.contract.wording import class_text, statement_text
from maabo_dist.data.split import held_out_share
from maabo_dist.findings import certificate
from maabo_dist.findings.certificate import LEVEL
from maabo_dist.findings.evidence import log_factorials, log_p_values
from maabo_dist.findings.findings import (
    Evidence,
    Findings,
    choose_certified,
    is_certified,
    literals_of,
    meets_limits,
    uses_probes,
)
from maabo_dist.findings.rowbits import Ints
from maabo_dist.findings.thresholds import readable_bounds
from maabo_dist.rules.conditions import conditions_of
from maabo_dist.rules.leaves import leaf_gini
from maabo_dist.study import Study

Settings = dict[str, Any]

# Tried where the rows support no condition about a class.
LOOSE_SETTINGS: Settings = {"significance": 0.9, "max_p": 1.0}
# Rows of the largest table that an estimate considers.
MAX_ROWS = 10_000_000


def missing_classes(findings: Findings, study: Study, *, try_settings: bool) -> tuple[MissingClassRecord, ...]:
    """Return a record for each class that should have a finding and has none.

    `try_settings` is False where another run of the same search may differ, as one with a time limit may.
    """
    found = {int(findings.evidence.rules.labels[group.head]) for group in findings.groups}
    names = study.settings.for_class or study.columns.classes
    labels = [label for label, name in enumerate(study.columns.classes) if name in names and label not in found]
    unsupported = _UnsupportedRules(findings, study)
    return tuple(_Explanation(findings, study, label, try_settings, unsupported).record() for label in labels)


@dataclass(frozen=True)
class _UnsupportedRules:
    """The findings of a search with rules that it did not support, certified by the bound. All classes share them."""

    findings: Findings
    study: Study

    @cached_property
    def looser(self) -> Findings:
        """With the rules that `LOOSE_SETTINGS` support."""
        evidence, study = self.findings.evidence, with_settings(self.study, LOOSE_SETTINGS)
        return self._of(Evidence.of_candidates(evidence.candidates, evidence.table, study))

    @cached_property
    def every(self) -> Findings:
        """With all candidates."""
        evidence = self.findings.evidence
        return self._of(Evidence.of_rules(evidence.candidates, evidence.table, self.study))

    def _of(self, evidence: Evidence) -> Findings:
        return replace(self.findings, evidence=evidence, certification=evidence.certify([]))


@dataclass(frozen=True)
class _Explanation:
    """Why one class has no finding."""

    findings: Findings
    study: Study
    label: int
    try_settings: bool
    unsupported: _UnsupportedRules

    @property
    def evidence(self) -> Evidence:
        return self.findings.evidence

    @cached_property
    def own(self) -> Ints:
        """Indices of the supported rules about the class."""
        return np.flatnonzero((self.evidence.rules.labels == self.label) & ~uses_probes(self.evidence, self.study))

    @cached_property
    def certified(self) -> Ints:
        """Those of `own` that are certified."""
        return self.own[is_certified(self.findings.certification, self.study.settings.max_p)[self.own]]

    @cached_property
    def meets(self) -> npt.NDArray[np.bool_]:
        """(rules): True if the limits of the settings are met."""
        return meets_limits(self.evidence, self.study)

    def record(self) -> MissingClassRecord:
        """Return the reason, the nearest rule and the settings that show it."""
        reason, columns = self._reason(), self.study.columns
        rows = int(self.evidence.totals[self.label])
        nearest = self._nearest(reason)
        name, counts = columns.classes[self.label], (len(self.own), len(self.certified))
        text = missing_text(
            class_text(name, columns.classes, columns.target),
            rows,
            reason,
            counts,
            nearest,
            self.study.settings.model_dump(mode="json"),
        )
        return MissingClassRecord(
            label=name,
            rows=rows,
            reason=reason,
            supported=counts[0],
            certified=counts[1],
            nearest=nearest,
            text=text,
        )

    def _reason(self) -> MissingReason:
        if self.meets[self.certified].any():
            return MissingReason.NOT_CHOSEN
        if len(self.certified):
            return MissingReason.EXCLUDED
        if self._is_rare():
            return MissingReason.RARE
        return MissingReason.UNCERTIFIED if len(self.own) else MissingReason.UNSUPPORTED

    def _is_rare(self) -> bool:
        """True if even one condition that holds for all rows of the class, and for no other, is not certified."""
        table, totals = self.evidence.table, self.evidence.totals
        hits, rows = totals[self.label : self.label + 1], np.array([totals.sum()])
        log_p = log_p_values(hits, hits, hits, rows, table.factorials, table.effect)
        values = log_p + table.choices.log_singles
        bounds = certificate.log_bounds(values, self.evidence.rules.conditions.shape[1], 2 * len(totals))
        return not is_certified(certificate.certify(values, bounds, [()], []), self.study.settings.max_p).any()

    def _nearest(self, reason: MissingReason) -> NearestRecord | None:
        match reason:
            case MissingReason.NOT_CHOSEN:
                return self._first_chosen()
            case MissingReason.EXCLUDED:
                rule = min(self.certified.tolist(), key=self._distance)
                return self.describe(rule, self._shown_by(rule, self._looser_limits(rule)))
            case _ if len(self.own):
                return self._strongest()
            case _:
                return self._unsupported()

    def _strongest(self) -> NearestRecord:
        """The uncertified rule with the most evidence; among those that meet the limits, if any does."""
        rules = self.own[self.meets[self.own]] if self.meets[self.own].any() else self.own
        rule = self.strongest(rules)
        p = _round_up(float(np.exp(self.findings.certification.log_p[rule])))
        shown_by = self._shown_by(rule, self._looser_limits(rule) | {"max_p": max(p, LEVEL)})
        return self.describe(rule, shown_by, self.estimate_rows(rule))

    def _first_chosen(self) -> NearestRecord:
        """The rule of the class that is chosen first with a looser limit on the number of findings."""
        for settings in self._attempts({}):
            if heads := self.heads_with(self.findings, settings):
                return self.describe(heads[0], settings)
        return self.describe(self.strongest(self.certified), {})

    def _unsupported(self) -> NearestRecord | None:
        """The strongest rule that a larger significance level supports; if none, the strongest that was tried."""
        if self.try_settings and self.study.settings.significance < LOOSE_SETTINGS["significance"]:
            looser = replace(self, findings=self.unsupported.looser)
            for attempt in self._attempts(LOOSE_SETTINGS):
                if heads := looser.heads_with(looser.findings, attempt):
                    rule = looser.strongest(np.array(heads))
                    return looser.describe(rule, attempt, looser.estimate_rows(rule))
        every = replace(self, findings=self.unsupported.every)
        if not len(every.own):
            return None
        rule = every.strongest(every.own)
        return every.describe(rule, {}, every.estimate_rows(rule))

    def strongest(self, rules: Ints) -> int:
        """Of these rules the one with the most evidence."""
        margins, statistics = self.findings.certification.margins[rules], self.evidence.statistics[rules]
        return int(rules[np.lexsort([statistics, -margins])[0]])

    def describe(self, rule: int, shown_by: Settings, rows_needed: int | None = None) -> NearestRecord:
        rules, table, columns = self.evidence.rules, self.evidence.table, self.study.columns
        logic, bounds = literals_of(rules.conditions[[rule]], table)
        bounds = readable_bounds(logic, bounds, columns)
        predicted = class_text(columns.classes[self.label], columns.classes, columns.target)
        certification, totals = self.findings.certification, self.evidence.totals
        enough = bool(certification.certified[rule]) and self.study.settings.max_p is None
        return NearestRecord(
            text=statement_text(conditions_of(columns.features, logic[0].tolist(), bounds[0].tolist()), predicted),
            n=int(rules.rows[rule]),
            precision=int(rules.hits[rule]) / int(rules.rows[rule]),
            base_rate=int(totals[self.label]) / int(totals.sum()),
            p=min(1.0, exp(certification.log_p[rule])),
            lacks_margin=enough and not is_certified(certification)[rule],
            shown_by=shown_by,
            rows_needed=rows_needed,
        )

    def _distance(self, rule: int) -> tuple[float, float]:
        """How far a rule is from the limits of the settings, as a sum of shares; then its evidence."""
        settings, figures = self.study.settings, self._figures(rule)
        limits = {name: limit for name in figures if (limit := getattr(settings, name))}
        shares = [
            (limit - figures[name]) / limit if name != "gini" else (figures[name] - limit) / figures[name]
            for name, limit in limits.items()
            if not self._is_met(name, figures[name])
        ]
        return sum(shares), -float(self.findings.certification.margins[rule])

    def _figures(self, rule: int) -> dict[str, float]:
        """The figures of a rule that settings can limit, by the names of the settings."""
        rules, settings, totals = self.evidence.rules, self.study.settings, self.evidence.totals
        rows, weights = int(rules.rows[rule]), self.study.table.weights
        precision = int(rules.hits[rule]) / rows
        gini = float(leaf_gini(rules.counts[rule : rule + 1].astype(np.int32), weights)[0])
        return {
            "min_precision": precision,
            "min_lift": precision * int(totals.sum()) / int(totals[self.label]),
            "min_samples": rows * (1 - settings.test_size),
            "gini": gini / (1 - 1 / len(weights)),
        }

    def _is_met(self, name: str, figure: float) -> bool:
        limit = getattr(self.study.settings, name)
        return limit is None or (figure < limit if name == "gini" else figure >= limit)

    def _looser_limits(self, rule: int) -> Settings:
        """Values of the limits that the rule does not meet with which it meets them."""
        looser: dict[str, Callable[[float], float]] = {
            "min_precision": lambda figure: floor(100 * figure) / 100,
            "min_lift": lambda figure: max(1.0, floor(100 * figure) / 100),
            "min_samples": lambda figure: max(1, floor(figure)),
            "gini": lambda figure: min(1.0, (floor(100 * figure) + 1) / 100),
        }
        return {
            name: looser[name](figure) for name, figure in self._figures(rule).items() if not self._is_met(name, figure)
        }

    def _attempts(self, settings: Settings) -> Iterator[Settings]:
        """Yield settings to try: these, then these without a short list, then these with a longer one."""
        if not self.try_settings:
            return
        yield settings
        if not self.study.settings.all:
            yield settings | {"all": True}
        if (limit := self.study.settings.max_rules) is not None:
            for more in range(limit + 1, len(self.study.columns.classes) + 1):
                yield settings | {"max_rules": more}
            yield settings | {"max_rules": max(limit, 1 + self._rank(settings))}

    def _rank(self, settings: Settings) -> int:
        """The number of findings before the first of the class in a list without a limit on their number."""
        rules, unlimited = self.evidence.rules, with_settings(self.study, settings | {"max_rules": None})
        groups = choose_certified(self.evidence, self.findings.certification, unlimited, probes=False).groups
        ranks = (rank for rank, group in enumerate(groups) if rules.labels[group.head] == self.label)
        return next(ranks, 0)

    def _shown_by(self, rule: int, settings: Settings) -> Settings:
        """Return the first settings to try that publish the rule; none if none does."""
        return next((each for each in self._attempts(settings) if rule in self.heads_with(self.findings, each)), {})

    def heads_with(self, findings: Findings, settings: Settings) -> list[int]:
        """Return the rules about the class that are published with other settings."""
        chosen = choose_certified(
            findings.evidence, findings.certification, with_settings(self.study, settings), probes=False
        )
        labels = findings.evidence.rules.labels
        return [group.head for group in chosen.groups if labels[group.head] == self.label]

    def estimate_rows(self, rule: int) -> int | None:
        """Estimate the rows of a table in which the rule has enough evidence, if all counts grow alike."""
        rules, totals = self.evidence.rules, self.evidence.totals
        counts = np.array([rules.hits[rule], rules.rows[rule], totals[self.label], totals.sum()], np.float64)
        wanted, mined = float(rules.log_p[rule]) - self._missing_evidence(rule), int(totals.sum())
        low, high = mined, 2 * mined
        effect = self.evidence.table.effect
        while high < MAX_ROWS and scaled_log_p(counts, high / mined, effect) > wanted:
            low, high = high, 2 * high
        if high >= MAX_ROWS:
            return None
        while high - low > max(1, low // 200):
            middle = (low + high) // 2
            enough = scaled_log_p(counts, middle / mined, effect) <= wanted
            low, high = (low, middle) if enough else (middle, high)
        share = held_out_share(self.study.settings.holdout, high)
        return _two_digits(high / (1 - share))

    def _missing_evidence(self, rule: int) -> float:
        """The evidence, in ln p, that the rule would need to be published, beyond what it has."""
        evidence, certification = self.evidence, self.findings.certification
        choices = 2 * evidence.rules.conditions.shape[1] * len(self.study.columns.classes)
        needed = certificate.needed_statistic(choices) - self.findings.margin
        missing = float(evidence.statistics[rule]) - needed
        if certification.certified[rule]:
            missing = min(missing, self.findings.margin - float(certification.margins[rule]))
        return max(0.0, missing)


def with_settings(study: Study, settings: Settings) -> Study:
    """Return the study with other values of some settings."""
    return replace(study, settings=study.settings.model_copy(update=settings))


def scaled_log_p(counts: npt.NDArray[np.float64], factor: float, effect: float = 1.0) -> float:
    """Ln p of a rule if its hits and rows, and all hits and rows, are so many times as many; `effect` are worth one."""
    hits, rows, all_hits, all_rows = np.floor(counts * factor).astype(np.int64)[:, None]
    return float(log_p_values(hits, rows, all_hits, all_rows, log_factorials(int(all_rows[0])), effect)[0])


def _round_up(p: float) -> float:
    """The smallest number of two digits that is not below a p-value, except for rounding errors."""
    digits = 1 - floor(log10(p))
    unit = 10.0**-digits
    return min(1.0, round(ceil(p / unit - 1e-6) * unit, digits))


def _two_digits(rows: float) -> int:
    """Round up to two significant digits: an estimate is not more exact."""
    unit = int(10 ** max(0, len(str(ceil(rows))) - 2))
    return ceil(rows / unit) * unit
