"""The inputs of plots: a document, figure data, or an object that has them."""

from collections.abc import Mapping
from typing import Any, Protocol

from maabo_dist.contract.result import ResultDocument
from maabo_dist.contract.rules import RuleRecord
from maabo_dist.errors import SettingsError
from maabo_dist.mining.result import MiningResult
from maabo_dist.report.document import result_document
from maabo_dist.report.figures import FORMAT as FIGURES_FORMAT
from maabo_dist.report.figures import FigureData
from maabo_dist.rules.rule import Rule

_REMEDY = "Pass a fitted RuleMiner, or the result of maabo_dist.report.run_folder.read_run for a run with --report."


class Miner(Protocol):
    """A fitted `RuleMiner`."""

    def document(self) -> ResultDocument:
        """The result document."""

    def figures(self) -> FigureData:
        """The figure data."""


# A fitted miner, a result, a document, figure data, or the last two as `read_run` returns them.
Plottable = Miner | MiningResult | ResultDocument | Mapping[str, Any] | tuple[ResultDocument, FigureData | None]
RuleName = Rule | RuleRecord | str | int  # a rule, its id, or its index from 0


def document_of(result: Plottable) -> ResultDocument:
    """The result document."""
    match result:
        case MiningResult():
            return result_document(result, {"name": "table"})
        case ResultDocument():
            return result
        case (ResultDocument() as document, _):
            return document
        case _ if hasattr(result, "document"):
            return result.document()
    raise SettingsError(f"This plot needs a document, not {_describe(result)}. {_REMEDY}")


def figures_of(result: Plottable) -> FigureData:
    """The figure data."""
    match result:
        case Mapping() if result.get("format") == FIGURES_FORMAT:
            return dict(result)
        case (ResultDocument(), Mapping() as figures):
            return figures_of(figures)
        case MiningResult():
            raise SettingsError(
                "A result alone has no figures. Pass maabo_dist.report.figures.figures_of(result, columns)."
            )
        case _ if hasattr(result, "figures"):
            return result.figures()
    raise SettingsError(f"This plot needs figures, not {_describe(result)}. {_REMEDY}")


def rule_of(result: Plottable, rule: RuleName) -> tuple[RuleRecord, Mapping[str, Any]]:
    """A rule of the document, and its figure data."""
    document, figures = document_of(result), figures_of(result)
    if figures["digest"] != document.digest:
        raise SettingsError(
            "The figure data belongs to a different result than the document. Pass the data of the same run."
        )
    record = _find_rule(document, rule)
    entry = next((entry for entry in figures["rules"] if entry["id"] == record.id), None)
    if entry is None:
        raise SettingsError(f"{record.id} has no figures: only the first {len(figures['rules'])} rules have figures.")
    return record, entry


def _find_rule(document: ResultDocument, rule: RuleName) -> RuleRecord:
    rules = document.rules
    if isinstance(rule, int):
        if not 0 <= rule < len(rules):
            raise SettingsError(f"There is no rule at index {rule}; there are {len(rules)} rules, the first is 0.")
        return rules[rule]
    name = rule if isinstance(rule, str) else rule.id
    record = next((each for each in rules if each.id == name), None)
    if record is None:
        last = f"they are R1 to R{len(rules)}" if rules else "there are none"
        raise SettingsError(f"There is no rule {name!r} among these rules; {last}.")
    return record


def _describe(result: object) -> str:
    if isinstance(result, Mapping):
        return f"a mapping with the format {result.get('format')!r}"
    return "a document without figures" if isinstance(result, tuple) else f"a {type(result).__name__}"
