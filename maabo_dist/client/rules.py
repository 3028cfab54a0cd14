"""Rules as values, read from the document of a job. They know no arrays: who only asks a server loads no kernels."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from maabo_dist.errors import FormatError, SettingsError


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition on a column of the table."""

    feature: str
    op: str
    """<= or > with a number, = or != with a level, `is missing` or `is not missing` without a value."""
    value: float | str | None
    or_missing: bool = False
    """Whether rows where the column is missing satisfy it too."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """How a rule does on one part of the rows."""

    rows: int
    """Rows of the part."""
    n: int
    """Rows that the rule covers."""
    counts: Mapping[str, int]
    """Of these, the rows of each class."""
    precision: float | None
    recall: float | None
    lift: float | None
    precision_low: float | None = None
    """95 % interval of the precision, on held-out rows only, like p and q."""
    precision_high: float | None = None
    p: float | None = None
    q: float | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """Where all conditions hold, the class is mostly this one."""

    id: str
    text: str
    conditions: tuple[Condition, ...]
    label: str
    """The class."""
    n: int
    """Training rows that it covers."""
    gini: float
    train: Evidence
    validation: Evidence
    holdout: Evidence | None
    unique: int
    """Training rows that no other rule covers."""

    def __str__(self) -> str:
        return self.text


def rules_of(document: Mapping[str, Any]) -> list[Rule]:
    """The rules in a document of `maabo mine`, best first."""
    try:
        return [_rule(rule) for rule in document["rules"]]
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"The document of the rules does not read ({error!r}). Is this client older than the server?"
        ) from None


def _rule(rule: Mapping[str, Any]) -> Rule:
    return Rule(
        id=rule["id"],
        text=rule["text"],
        conditions=tuple(map(_condition, rule["conditions"])),
        label=rule["class"],
        n=rule["n"],
        gini=rule["gini"],
        train=_evidence(rule["train"]),
        validation=_evidence(rule["validation"]),
        holdout=None if rule["holdout"] is None else _evidence(rule["holdout"]),
        unique=rule["unique"],
    )


def _condition(condition: Mapping[str, Any]) -> Condition:
    or_missing = bool(condition.get("or_missing", False))
    return Condition(condition["feature"], condition["op"], condition["value"], or_missing)


def _evidence(part: Mapping[str, Any]) -> Evidence:
    known = {name: part[name] for name in Evidence.__slots__ if name in part}
    return Evidence(**known)


def exported(document: dict[str, Any], form: str, table_name: str = "data") -> str:
    """The rules in one of the formats of `maabo mine`: json, csv, markdown, sql or pandas."""
    from maabo_dist import report
    from maabo_dist.contract.result import ResultDocument

    parsed = ResultDocument.parse(document)
    forms: dict[str, Callable[[], str]] = {
        "json": parsed.to_text,
        "csv": lambda: report.to_csv(parsed),
        "markdown": lambda: report.to_markdown(parsed),
        "sql": lambda: report.to_sql(parsed, table_name),
        "pandas": lambda: report.to_pandas(parsed),
    }
    if form not in forms:
        raise SettingsError(f"Rules are not written as {form!r}. Known are {', '.join(forms)}.")
    return forms[form]()
