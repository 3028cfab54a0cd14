"""What a picture is drawn from: of whatever a caller has, the document, the exhibits, or a rule in both."""

from collections.abc import Mapping
from typing import Any, Protocol

from maabo_dist.errors import SettingsError
from maabo_dist.mining import MiningResult
from maabo_dist.report.document import FORMAT as DOCUMENT_FORMAT
from maabo_dist.report.document import Document, result_document
from maabo_dist.report.exhibits import FORMAT as EXHIBITS_FORMAT
from maabo_dist.report.exhibits import Exhibits
from maabo_dist.rules.rule import Rule


class Miner(Protocol):
    """A fitted `RuleMiner`."""

    def document(self) -> Document:
        """The result document."""
        ...

    def exhibits(self) -> Exhibits:
        """Its exhibits."""
        ...


Shown = Miner | MiningResult | Mapping[str, Any] | tuple[Document, Exhibits | None]
"""A fitted miner, a result, a document or exhibits, or the two together as `read_run` gives them."""
RuleName = Rule | Mapping[str, Any] | str | int
"""A rule, its id, or its place from 0."""


def document_of(shown: Shown) -> Document:
    """The result document."""
    match shown:
        case MiningResult():
            return result_document(shown, {"name": "table"})
        case Mapping() if shown.get("format") == DOCUMENT_FORMAT:
            return dict(shown)
        case (Mapping() as document, _):
            return document_of(document)
        case _ if hasattr(shown, "document"):
            return shown.document()
    raise SettingsError(f"This picture needs a document, not {_named(shown)}. {_REMEDY}")


def exhibits_of(shown: Shown) -> Exhibits:
    """The exhibits."""
    match shown:
        case Mapping() if shown.get("format") == EXHIBITS_FORMAT:
            return dict(shown)
        case (Mapping(), Mapping() as exhibits):
            return exhibits_of(exhibits)
        case MiningResult():
            raise SettingsError("A result alone has no exhibits. Pass maabo_dist.report.exhibits_of(result, columns).")
        case _ if hasattr(shown, "exhibits"):
            return shown.exhibits()
    raise SettingsError(f"This picture needs exhibits, not {_named(shown)}. {_REMEDY}")


def rule_of(shown: Shown, rule: RuleName) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """A rule in the document, and what is exhibited of it."""
    document, exhibits = document_of(shown), exhibits_of(shown)
    if exhibits["digest"] != document["digest"]:
        raise SettingsError("These exhibits are of other rules than this document. Pass those of the same run.")
    found = _found(document, rule)
    entry = next((entry for entry in exhibits["rules"] if entry["id"] == found["id"]), None)
    if entry is None:
        raise SettingsError(f"{found['id']} has no exhibits: only the first {len(exhibits['rules'])} rules have.")
    return found, entry


def _found(document: Document, rule: RuleName) -> Mapping[str, Any]:
    rules = document["rules"]
    if isinstance(rule, int):
        if not 0 <= rule < len(rules):
            raise SettingsError(f"There is no rule at place {rule}; there are {len(rules)} rules, the first is 0.")
        return dict(rules[rule])
    name = rule.id if isinstance(rule, Rule) else rule if isinstance(rule, str) else rule.get("id")
    found = next((entry for entry in rules if entry["id"] == name), None)
    if found is None:
        last = f"they are R1 to R{len(rules)}" if rules else "there are none"
        raise SettingsError(f"There is no rule {name!r} among these rules; {last}.")
    return dict(found)


_REMEDY = "Pass a fitted RuleMiner, or what maabo_dist.report.read_run gives of a run with --report."


def _named(shown: object) -> str:
    if isinstance(shown, Mapping):
        return f"a mapping of the format {shown.get('format')!r}"
    return "a document without exhibits" if isinstance(shown, tuple) else f"a {type(shown).__name__}"
