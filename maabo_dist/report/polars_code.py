"""Rules as Polars expressions: a Python module that defines `R1`, `R2`, … and the expression `predicted`.

    df.filter(R1)                      the rows that R1 matches
    df.with_columns(predicted)         the class that `maabo apply` predicts, for eager and lazy frames alike

NaN and infinite numbers count as missing, as they do in mining. Names and levels are Python literals.
"""

from maabo_dist.contract.conditions import ISO_LAYOUT, Condition, DatePart, Op
from maabo_dist.contract.result import ResultDocument
from maabo_dist.report.briefing import in_order
from maabo_dist.report.captions import comment_lines, rule_caption
from maabo_dist.report.sql import number_text
from maabo_dist.report.summary import with_failed_heading

_HEAD = "import polars as pl\n"
_HELPERS = {
    "number": """
def number(name):
    values = pl.col(name).cast(pl.Float64, strict=False)
    return pl.when(values.is_finite()).then(values)
""",
    "text_number": """
def text_number(name):
    values = pl.col(name).cast(pl.String).str.strip_chars().cast(pl.Float64, strict=False)
    return pl.when(values.is_finite()).then(values)
""",
    "level": """
def level(name):
    return pl.col(name).cast(pl.String)
""",
    "day": """
def day(name, layout=None):
    texts = pl.col(name).cast(pl.String)
    if layout is None:  # dates, or texts such as 2024-12-31
        return texts.str.slice(0, 10).str.to_date("%Y-%m-%d", strict=False)
    return texts.str.strptime(pl.Datetime, layout, strict=False).dt.date()
""",
    "hour": """
def hour(name, layout=None):
    texts = pl.col(name).cast(pl.String)
    if layout is None:  # times, or texts such as 2024-12-31 23:59
        hours = texts.str.slice(11, 2).cast(pl.Int32, strict=False).fill_null(0)
        return pl.when(day(name).is_not_null()).then(hours)
    return texts.str.strptime(pl.Datetime, layout, strict=False).dt.hour()
""",
}


def to_polars(document: ResultDocument) -> str:
    """One expression per rule, after the functions that they use, and one that predicts the class."""
    parts = [
        "".join(f"# {rule_caption(rule, document.dataset)}\n{rule.id} = {_rule(rule.premise)}\n" for rule in rules)
        for rules in in_order(document)
    ]
    rules = "".join(with_failed_heading(parts, document, "# {}\n"))
    used = [name for name in _HELPERS if f"{name}(" in rules]
    if "hour" in used and "day" not in used:
        used.insert(used.index("hour"), "day")
    helpers = "".join(f"\n{_HELPERS[name]}" for name in used)
    space = "\n\n" if used else "\n"
    return f"{comment_lines(document, '#')}{_HEAD}{helpers}{space}{rules}{_prediction(document)}"


def _prediction(document: ResultDocument) -> str:
    """The first rule that matches decides, so that they are in the order in which rules decide."""
    from maabo_dist.rules.deciding import decision_order  # noqa: PLC0415 - loads numba

    order = decision_order(document.rules, document.dataset.design_effect or 1.0)
    rules = [document.rules[index] for index in order]
    if not rules:
        return "predicted = pl.lit(None, pl.String).alias('predicted')\n"
    lines = "".join(f"    .when({rule.id})\n    .then(pl.lit({rule.label!r}))\n" for rule in rules)
    return f"predicted = (\n    pl\n{lines}    .otherwise(None)\n    .alias('predicted')\n)\n"


def _rule(conditions: tuple[Condition, ...]) -> str:
    return " & ".join(f"({_condition(condition)})" for condition in conditions) or "pl.lit(True)"


def _condition(condition: Condition) -> str:
    """A null satisfies no comparison; conditions that include missing cells add `is_null`."""
    if condition.op in {Op.IS_MISSING, Op.IS_PRESENT}:
        absent = condition.op is Op.IS_MISSING
        cells = f"text_number({condition.feature!r})" if condition.as_text else f"pl.col({condition.feature!r})"
        return f"{cells}.is_null()" if absent else f"{cells}.is_not_null()"
    if condition.part is not None:
        cells, number = _date(condition.feature, condition.part)
        holds = f"{number} {condition.op.value} {number_text(_bound(condition))}"
    elif isinstance(condition.value, str | tuple):
        cells = f"level({condition.feature!r})"
        holds = _levels(cells, condition)
    else:
        cells = f"{'text_number' if condition.as_text else 'number'}({condition.feature!r})"
        holds = f"{cells} {condition.op.value} {number_text(_bound(condition))}"
    return f"({holds}) | {cells}.is_null()" if condition.or_missing else holds


def _levels(cells: str, condition: Condition) -> str:
    if isinstance(condition.value, tuple):
        among = f"{cells}.is_in({list(condition.value)!r})"
        return among if condition.op is Op.IN else f"~{among}"
    return f"{cells} {'==' if condition.op is Op.IS else '!='} {condition.value!r}"


def _bound(condition: Condition) -> float:
    return condition.value if isinstance(condition.value, float | int) else 0.0


def _date(column: str, part: DatePart) -> tuple[str, str]:
    """Return expressions of the cells and of the part, a number."""
    arguments = f"{column!r}" if part.layout == ISO_LAYOUT else f"{column!r}, {part.layout!r}"
    if part.part == "hour":
        return f"hour({arguments})", f"hour({arguments})"
    cells = f"day({arguments})"
    if part.part == "days":
        return cells, f"({cells} - pl.lit({part.first!r}).str.to_date()).dt.total_days()"
    return cells, f"{cells}.dt.{part.part}()"
