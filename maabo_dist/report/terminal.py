"""The report on the terminal: a header, the funnel, the table of rules, consensus rules, notes and the digest.

Names come from data, so nothing here is rich markup: every text is a `Text`, in which `[red]` is just a name.
"""

from collections.abc import Iterator, Sequence
from typing import IO

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from maabo_dist._util.text import printable
from maabo_dist.contract.result import DatasetInfo, ResultDocument
from maabo_dist.contract.rules import RepeatsRecord, RuleRecord, Verdict
from maabo_dist.contract.wording import ALWAYS, condition_texts, dropped_texts, predicted_text
from maabo_dist.report import summary

# Width of a report that is written to a file or a pipe.
PIPE_WIDTH = 100
MAX_WIDTH = 120
# Rules in the table; the other formats have them all.
MAX_RULES = 50

MAX_CONSENSUS = 20
# Classes without a finding.
MAX_MISSING = 5

_AND = "and "
_WITHOUT = "without "


def report_console(stream: IO[str]) -> Console:
    """A console for the report: colours on a terminal only (and not with NO_COLOR), plain text elsewhere."""
    console = Console(file=stream, markup=False, highlight=False, emoji=False)
    console.width = min(console.width, MAX_WIDTH) if console.is_terminal else PIPE_WIDTH
    return console


def print_report(document: ResultDocument, console: Console, *, only_rules: bool = False) -> None:
    """Print the report; `only_rules` leaves out everything around the table."""
    parts = list(_rules(document))
    if not only_rules:
        parts = [*_header(document), _funnel(document), *parts, *_footer(document)]
    with console.capture() as capture:
        console.print(Group(*parts))
    # rich pads lines with spaces, which would remain in a file.
    text = (
        capture.get() if console.is_terminal else "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())
    )
    console.file.write(text)


class _Statement:
    """A rule on several lines: its conditions, wrapped between them where possible, and its consequence."""

    def __init__(self, conditions: list[str], consequence: str, dropped: list[str]) -> None:
        self.conditions, self.consequence, self.dropped = conditions, f"→ {consequence}", dropped

    def _lines(self, width: int) -> Iterator[Text]:
        for line in _fill_lines(self.conditions, " ", _AND, width):
            yield Text(line, overflow="fold")
        yield Text(self.consequence, style="bold", overflow="fold")
        for line in _fill_lines(self.dropped, ", ", "", width, _WITHOUT):
            yield Text(line, style="dim", overflow="fold")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        return self._lines(options.max_width)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        widths = (max(line.cell_len for line in self._lines(width)) for width in (0, options.max_width))
        return Measurement(*(min(width, options.max_width) for width in widths))


class _WithRemarks:
    """A table with a line across its whole width below the rows that have a remark; rows begin with their keys."""

    def __init__(self, table: Table, remarks: dict[str, str]) -> None:
        self.table, self.remarks = table, remarks

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        remark: Segment | None = None
        indent = 5 + max(map(len, self.remarks), default=0)
        for line in console.render_lines(self.table, options, pad=False):
            text = "".join(segment.text for segment in line)
            key = text[:indent].strip()
            if remark is not None and (key in self.remarks or not text.strip()):
                yield from (remark, Segment.line())
                remark = None
            if key in self.remarks:
                words = Text(f"{' ' * indent}{self.remarks[key]}")
                words.truncate(options.max_width - 1, overflow="ellipsis")
                remark = Segment(words.plain, console.get_style("dim")) if self.remarks[key] else None
            yield from (*line, Segment.line())
        if remark is not None:
            yield from (remark, Segment.line())


def _fill_lines(parts: list[str], gap: str, joiner: str, width: int, start: str = "") -> Iterator[str]:
    """Join the parts to lines, wrapped between parts where a line would be wider than `width`."""
    if not parts:
        return
    line = f"{start}{parts[0]}"
    for part in parts[1:]:
        longer = f"{line}{gap}{joiner}{part}"
        if cell_len(longer) > width:
            yield line + gap.rstrip()
            longer = f"{joiner}{part}"
        line = longer
    yield line


def _header(document: ResultDocument) -> Iterator[RenderableType]:
    dataset, settings = document.dataset, document.settings
    title = Text.assemble((printable(dataset.name), "bold"), "  ", (printable(dataset.target), "cyan"))
    yield _padded(title)
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim")
    facts.add_column()
    facts.add_row("rows", summary.rows_text(dataset))
    facts.add_row("space", summary.space_text(document.space, settings["probes"]))
    facts.add_row("search", summary.search_text(document))
    for name, text in summary.outcome_texts(document).items():
        facts.add_row(name, text)
    yield _padded(facts)


def _funnel(document: ResultDocument) -> RenderableType:
    *steps, rules = summary.funnel_texts(document.funnel)
    return Padding(Text.assemble(*((f"{step} → ", "dim") for step in steps), (rules, "bold")), (0, 2))


def _rules(document: ResultDocument) -> Iterator[RenderableType]:
    if document.rules:
        yield from _rules_tables(document)
        yield from _further(len(document.rules) - MAX_RULES, "csv or json")
    for title, reason in summary.no_rules_texts(document):
        yield Padding(Text.assemble((title, "bold"), " ", reason), (1, 2))
    for record in document.missing_classes[:MAX_MISSING]:
        yield _padded(Text(record.text))
    hidden = len(document.missing_classes) - MAX_MISSING
    if hidden > 0:
        yield _padded(Text(f"… and {hidden:,} more classes without a finding; --format json has them.", style="dim"))
    if document.repeats and document.repeats.consensus:
        yield _consensus_table(document.repeats, document.dataset)
        yield from _further(len(document.repeats.consensus) - MAX_CONSENSUS, "json")


def _further(count: int, formats: str) -> Iterator[RenderableType]:
    if count > 0:
        yield _padded(Text(f"… and {count:,} more; --format {formats} has them all.", style="dim"))


def _empty_table(*headings: str, title: str | None = None) -> Table:
    """A table with the columns of the id and the rule, and further columns of numbers."""
    table = Table(
        box=SIMPLE_HEAD,
        header_style="dim",
        border_style="dim",
        padding=(0, 1),
        title=None if title is None else Text(f" {title}", style="bold"),
        title_justify="left",
    )
    table.add_column("", style="bold cyan", no_wrap=True)
    table.add_column("rule")
    for heading in headings:
        table.add_column(heading, justify="left" if "→" in heading else "right", no_wrap=True)
    return table


def _consensus_table(repeats: RepeatsRecord, dataset: DatasetInfo) -> Table:
    """The rules that most repeats found, the simplest first."""
    table = _empty_table("rows", "comes\nback", "precision\nunseen", title="Consensus rules")
    for rule in repeats.consensus[:MAX_CONSENSUS]:
        table.add_row(
            rule.rule or "–",
            _Statement(condition_texts(rule.premise) or [ALWAYS], predicted_text(rule, dataset), []),
            f"{rule.rows:,}",
            summary.returns_text(rule.stability),
            summary.two_decimals(rule.stability.precision),
        )
    return table


def _rules_tables(document: ResultDocument) -> Iterator[RenderableType]:
    """The rules, and those that failed on held-out rows apart from the others."""
    passed, failed = summary.split_failed(document.model_copy(update={"rules": document.rules[:MAX_RULES]}))
    if not document.lists_findings:
        yield _rules_table(passed, document)
        return
    if passed:
        yield _findings_table(passed, document)
    if failed:
        yield _findings_table(failed, document, title=summary.FAILED_HEADING)


def _rules_table(rules: Sequence[RuleRecord], document: ResultDocument) -> Table:
    precision = "precision\ntrain → valid." + ("\n→ held out" if document.dataset.parts.holdout else "")
    table = _empty_table("n", "Gini", precision, "lift\nvalid.", *_stability_heading(document))
    for rule in rules:
        table.add_row(
            rule.id,
            _statement(rule, document),
            f"{rule.n:,}",
            f"{rule.gini:.3f}",
            _precisions(rule),
            summary.two_decimals(rule.validation.lift),
            *_stability_cell(rule, document),
        )
    return table


def _findings_table(rules: Sequence[RuleRecord], document: ResultDocument, title: str | None = None) -> _WithRemarks:
    unseen = "on held-out\nrows" if document.dataset.parts.holdout else "verdict"
    table = _empty_table("rows", "precision\n(base)", unseen, "adjusted\np", *_stability_heading(document), title=title)
    for rule in rules:
        base = summary.two_decimals(document.dataset.base_rates[rule.label])
        table.add_row(
            rule.id,
            _statement(rule, document),
            f"{rule.mined_n:,}",
            Text.assemble(summary.two_decimals(rule.mined_precision), (f"\n({base})", "dim")),
            _verdict(rule),
            summary.adjusted_p_text(rule),
            *_stability_cell(rule, document),
        )
    return _WithRemarks(table, {rule.id: summary.also_seen_text(rule) or "" for rule in rules})


def _statement(rule: RuleRecord, document: ResultDocument) -> _Statement:
    premise, dropped = condition_texts(rule.premise) or [ALWAYS], dropped_texts(rule.dropped)
    return _Statement(premise, predicted_text(rule, document.dataset), dropped)


def _stability_heading(document: ResultDocument) -> list[str]:
    return ["comes\nback"] if document.repeats else []


def _stability_cell(rule: RuleRecord, document: ResultDocument) -> Iterator[Text]:
    if document.repeats and rule.stability:
        stable = (rule.stability.share or 0.0) >= document.repeats.threshold
        yield Text(summary.returns_text(rule.stability), style="bold" if stable else "dim")


def _verdict(rule: RuleRecord) -> Text:
    """`0.91 held up` and, below, the interval of the precision and the number of rows."""
    style = {Verdict.HELD_UP: "green", Verdict.WEAKER: "yellow", Verdict.FAILED: "red"}.get(rule.verdict, "dim")
    verdict, holdout = Text(summary.verdict_text(rule).replace("weaker than ", "weaker than\n"), style), rule.holdout
    if holdout is None or holdout.precision_low is None:
        return verdict
    interval = f"{summary.two_decimals(holdout.precision_low)}–{summary.two_decimals(holdout.precision_high)}"
    text = Text.assemble(summary.two_decimals(holdout.precision), " ", verdict)
    return text.append(f"\n{interval}, n {holdout.n:,}", style="dim")


def _precisions(rule: RuleRecord) -> Text:
    """`0.97 → 0.93 → 0.91` and, below, the interval and the q-value of the last one."""
    supports, holdout = rule.supports.values(), rule.holdout
    text = Text(" → ", style="dim").join(
        Text(summary.two_decimals(part.precision), style="not dim") for part in supports
    )
    if holdout and holdout.precision_low is not None and holdout.q is not None:
        interval = f"{summary.two_decimals(holdout.precision_low)}–{summary.two_decimals(holdout.precision_high)}"
        # Highlight a rule that chance explains equally well.
        text.append(f"\n{interval}, q {summary.q_text(holdout.q)}", style="yellow" if holdout.q > 0.05 else "dim")
    return text


def _footer(document: ResultDocument) -> Iterator[RenderableType]:
    if document.notes:
        notes = Table.grid(padding=(0, 1))
        notes.add_column(style="yellow")
        notes.add_column(overflow="fold")
        for note in document.notes:
            notes.add_row("!", Text(printable(note)))
        yield _padded(notes)
    yield Padding(Text(f"digest {document.digest[:16]}", style="dim"), (0, 2))


def _padded(content: RenderableType) -> Padding:
    """The content with the margin of the table and a blank line below."""
    return Padding(content, (0, 2, 1, 2))
