"""The outcome of `maabo check` on the terminal: a headline, a line for each rule, and notes."""

from collections.abc import Iterator

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from maabo_dist._util.text import format_count, printable
from maabo_dist.contract.checks import CheckReport, CheckStatus, RuleCheck
from maabo_dist.contract.wording import p_text

# Consoles of fewer columns show only the most important figures.
NARROW = 112
NOTHING = "–"
_STYLES = {
    CheckStatus.HOLDS: "green",
    CheckStatus.DRIFTED: "yellow",
    CheckStatus.FAILED: "red",
    CheckStatus.UNTESTED: "dim",
}
_PHRASES = {
    CheckStatus.HOLDS: "holds",
    CheckStatus.DRIFTED: "drifted",
    CheckStatus.FAILED: "failed",
    CheckStatus.UNTESTED: "could not be tested",
}
_PLURALS = _PHRASES | {CheckStatus.HOLDS: "hold"}


def print_check(report: CheckReport, console: Console) -> None:
    """Print the outcome of a check."""
    with console.capture() as capture:
        console.print(Group(*_parts(report, wide=console.width >= NARROW)))
    text = capture.get()
    if not console.is_terminal:  # rich pads lines with spaces, which would remain in a file
        text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    console.file.write(text)


def check_headline(report: CheckReport) -> str:
    """Return the outcome in a sentence: `3 of 5 rules hold, 1 drifted, 1 failed.`."""
    count = len(report.rules)
    if not count:
        return "The document has no rules."
    if report.statuses[CheckStatus.HOLDS] == count:
        return "The rule holds." if count == 1 else f"All {count:,} rules hold."
    holding = report.statuses[CheckStatus.HOLDS]
    texts = [f"{holding:,} of {format_count(count, 'rule')} {_PHRASES[CheckStatus.HOLDS] if holding == 1 else 'hold'}"]
    texts += [
        f"{number:,} {_PLURALS[status]}" for status, number in report.statuses.items() if number and status != "holds"
    ]
    return f"{', '.join(texts)}."


def _parts(report: CheckReport, *, wide: bool) -> Iterator[RenderableType]:
    about = f" · {printable(report.target)} · {format_count(report.rows, 'row')}"
    yield Padding(Text.assemble((printable(report.table), "bold"), about, style="dim"), (1, 2))
    yield Padding(Text(check_headline(report), style="bold", overflow="fold"), (0, 2))
    if report.rules:
        yield _figures(report, wide=wide)
        yield Padding(_sentences(report), (0, 2, 1, 2))
    for note in report.notes:
        yield Padding(Text(printable(note), overflow="fold"), (0, 2))
    level = f"Tests at level {report.significance:g}, corrected for {format_count(len(report.rules), 'rule')} (Holm)."
    yield Padding(Text(f"{level} Intervals: 95 %, Wilson.", style="dim"), (0, 2))


def _figures(report: CheckReport, *, wide: bool) -> Table:
    table = Table(box=SIMPLE_HEAD, header_style="dim", border_style="dim", padding=(0, 1))
    table.add_column("rule", no_wrap=True)
    table.add_column("outcome", no_wrap=True)
    further = ("coverage", "p", "p of drift") if wide else ()
    for title in ("precision", "before", "base rate", "lift", "rows", *further):
        table.add_column(title, justify="right", no_wrap=True)
    for rule in report.rules:
        table.add_row(*_cells(rule, wide=wide))
    return table


def _sentences(report: CheckReport) -> Table:
    """The texts of the rules, which need the whole width."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for rule in report.rules:
        table.add_row(rule.id, Text(printable(rule.text)))
    return table


def _cells(rule: RuleCheck, *, wide: bool) -> Iterator[Text]:
    yield Text(rule.id)
    yield Text(rule.status.value, style=_STYLES[rule.status])
    yield Text(_interval(rule))
    yield Text(_share(rule.documented.precision))
    yield Text(_share(rule.base_rate))
    yield Text(_share(rule.lift))
    yield Text(f"{rule.n:,}")
    if wide:
        yield Text(f"{100 * rule.coverage:.1f} %")
        yield Text(_p(rule.p_adjusted))
        yield Text(_p(rule.drift_p_adjusted))


def _interval(rule: RuleCheck) -> str:
    if rule.precision_low is None or rule.precision_high is None:
        return NOTHING
    return f"{_share(rule.precision)} ({rule.precision_low:.2f}–{rule.precision_high:.2f})"


def _share(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"


def _p(value: float | None) -> str:
    return NOTHING if value is None else p_text(value).removeprefix("p ").removeprefix("= ")
