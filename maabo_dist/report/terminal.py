"""The report on the terminal: the headline, the findings, the classes that they explain, notes, and the run in a line.

Names come from data, so nothing here is rich markup: every text is a `Text`, in which `[red]` is just a name.
"""

from collections.abc import Iterator, Sequence
from typing import IO

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from maabo_dist._util.text import format_count, printable
from maabo_dist.contract.result import DatasetInfo, ResultDocument
from maabo_dist.contract.rules import RepeatsRecord, RuleRecord, Verdict
from maabo_dist.contract.wording import ALWAYS, class_text, condition_texts, dropped_texts, predicted_text
from maabo_dist.report import summary
from maabo_dist.report.briefing import (
    VERDICTS,
    compare,
    covered_text,
    headline,
    of_hundred,
    percent,
    useful_order,
)
from maabo_dist.report.terminal_lines import WITHOUT, Sentence, Statement

# Width of a report that is written to a file or a pipe.
PIPE_WIDTH = 100
MAX_WIDTH = 120
# Rules in the table; the other formats have them all.
MAX_RULES = 50

MAX_CONSENSUS = 20
# Classes without a finding.
MAX_MISSING = 5
# Classes whose explained rows are counted, and ids of rules in such a line.
MAX_CLASSES, MAX_IDS = 12, 6
# The longest name of a verdict.
VERDICT_WIDTH = 10


def report_console(stream: IO[str]) -> Console:
    """A console for the report: colours on a terminal only (and not with NO_COLOR), plain text elsewhere."""
    console = Console(file=stream, markup=False, highlight=False, emoji=False)
    console.width = min(console.width, MAX_WIDTH) if console.is_terminal else PIPE_WIDTH
    return console


def print_report(
    document: ResultDocument, console: Console, *, only_rules: bool = False, verbose: bool = False
) -> None:
    """Print the report; `only_rules` leaves out everything around the rules, `verbose` adds the run and the funnel."""
    parts = list(_rules(document, verbose=verbose))
    if not only_rules:
        run = [*_run_facts(document), _funnel(document)] if verbose else [_run_line(document)]
        parts = [*_headline(document), *parts, *_classes(document), *_notes(document), *run]
    with console.capture() as capture:
        console.print(Group(*parts))
    # rich pads lines with spaces, which would remain in a file.
    text = (
        capture.get() if console.is_terminal else "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())
    )
    console.file.write(text)


def _headline(document: ResultDocument) -> Iterator[RenderableType]:
    dataset, kept = document.dataset, document.dataset.parts.holdout
    rows = format_count(dataset.rows, "row") + (f", {kept:,} of them kept for a check" if kept else "")
    about = Text.assemble((printable(dataset.name), "bold"), f" · {printable(dataset.target)} · {rows}", style="dim")
    yield _padded(about)
    # The table of the paper's rules begins with a blank line.
    table = document.rules and not document.lists_findings
    yield _padded(Text(f"{headline(document)}.", style="bold", overflow="fold"), below=0 if table else 1)


def _run_facts(document: ResultDocument) -> Iterator[RenderableType]:
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim")
    facts.add_column()
    facts.add_row("rows", summary.rows_text(document.dataset))
    facts.add_row("space", summary.space_text(document.space, document.settings["probes"]))
    facts.add_row("search", summary.search_text(document))
    if document.search.completeness is not None:
        facts.add_row("counted", document.search.completeness.statement)
    for name, text in summary.outcome_texts(document).items():
        facts.add_row(name, text)
    facts.add_row("digest", document.digest[:16])
    yield _padded(facts)


def _run_line(document: ResultDocument) -> RenderableType:
    """The run in a few words; `--verbose` has more. What was asked for is never left out."""
    outcomes = summary.outcome_texts(document)
    search, seed = document.search, document.settings["seed"]
    texts = [f"{format_count(search.trees, 'tree')} in {search.seconds:.1f} s, seed {seed}"]
    texts += summary.completeness_texts(search)
    texts += [
        f"{name}: {outcomes[name]}" for name in ("certified", "tentative", "noise", "repeats") if name in outcomes
    ]
    return Padding(Text("; ".join([*texts, f"digest {document.digest[:16]}"]), style="dim"), (0, 2))


def _funnel(document: ResultDocument) -> RenderableType:
    *steps, rules = summary.funnel_texts(document.funnel)
    return Padding(Text.assemble(*((f"{step} → ", "dim") for step in steps), (rules, "bold")), (0, 2))


def _classes(document: ResultDocument) -> Iterator[RenderableType]:
    """What the rules explain of each class."""
    if document.coverage is None or not document.coverage.compared:
        return
    dataset, table = document.dataset, Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    table.add_column(style="dim")
    for each in document.coverage.classes[:MAX_CLASSES]:
        ids = [rule.id for rule in summary.split_failed(document)[0] if rule.label == each.label]
        by = f"by {', '.join(ids[:MAX_IDS])}{' …' if len(ids) > MAX_IDS else ''}, " if ids else ""
        text = f"{each.explained:,} of {format_count(each.rows, 'row')}, {by}{each.rows - each.explained:,} left"
        table.add_row(class_text(each.label, dataset.classes, dataset.target), percent(each.share), text)
    yield _padded(Text("Explained", style="bold"), below=0)
    yield _padded(table)
    yield from _further(len(document.coverage.classes) - MAX_CLASSES, "json")


def _rules(document: ResultDocument, *, verbose: bool) -> Iterator[RenderableType]:
    if document.rules and document.lists_findings:
        yield from _findings(document, verbose=verbose)
        yield from _further(len(document.rules) - MAX_RULES, "csv or json")
    elif document.rules:
        yield _rules_table(document.rules[:MAX_RULES], document)
        yield from _further(len(document.rules) - MAX_RULES, "csv or json")
    for title, reason in summary.no_rules_texts(document):
        yield _padded(Text.assemble((title, "bold"), " ", reason))
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
            Statement(condition_texts(rule.premise) or [ALWAYS], predicted_text(rule, dataset), []),
            f"{rule.rows:,}",
            summary.returns_text(rule.stability),
            summary.two_decimals(rule.stability.precision),
        )
    return table


def _findings(document: ResultDocument, *, verbose: bool) -> Iterator[RenderableType]:
    """The findings, and those that failed on held-out rows apart from the others."""
    shown = document.model_copy(update={"rules": document.rules[:MAX_RULES]})
    failed = summary.split_failed(shown)[1]
    for rules, title in ((useful_order(shown), None), (failed, summary.FAILED_HEADING)):
        if title and rules:
            yield _padded(Text(title, style="bold"))
        for rule in rules:
            yield _padded(_finding(rule, document, verbose=verbose))


def _finding(rule: RuleRecord, document: ResultDocument, *, verbose: bool) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold cyan", no_wrap=True, min_width=3)
    table.add_column(no_wrap=True, min_width=VERDICT_WIDTH)
    table.add_column(ratio=1)
    verdict = summary.verdict_text(rule)
    style = {Verdict.HELD_UP: "green", Verdict.WEAKER: "yellow", Verdict.FAILED: "red"}.get(rule.verdict, "dim")
    remarks = [covered_text(rule, document), _evidence_text(rule, document), *_alternatives(rule)]
    lines: list[RenderableType] = [Text(printable(remark), style="dim", overflow="fold") for remark in remarks]
    if verbose:
        lines += [Text(line, style="dim", overflow="fold") for line in [*_dropped_lines(rule)]]
    table.add_row(rule.id, Text(VERDICTS[verdict].name.lower(), style=style), Group(_sentence(rule, document), *lines))
    return table


def _sentence(rule: RuleRecord, document: ResultDocument) -> Sentence:
    """The sentence of `finding_sentence`, with its figures in bold."""
    comparison = compare(rule, document.dataset)
    share, noun = comparison.share_words
    words: list[tuple[str, str]] = [(f"{share[0].upper()}{share[1:]}", "bold"), (noun, "")]
    for number, text in enumerate(condition_texts(rule.premise)):
        words += [("and" if number else "with", ""), (text, "")]
    words += [("have", ""), (f"{predicted_text(rule, document.dataset)};", "bold")]
    return Sentence([*words, ("usually", ""), (f"{of_hundred(comparison.base)}.", "bold")])


def _evidence_text(rule: RuleRecord, document: ResultDocument) -> str:
    """`42 unseen rows: precision 0.95, 95 % interval 0.84–0.99; adjusted p < 0.001`."""
    comparison = compare(rule, document.dataset)
    rows = format_count(comparison.rows, "unseen row" if comparison.unseen else "searched row")
    text = f"{rows}: precision {comparison.share:.2f}, 95 % interval {comparison.low:.2f}–{comparison.high:.2f}"
    if rule.certificate:
        p = rule.certificate.p
        text += f"; adjusted p {'' if p < 0.001 else '= '}{summary.p_value_text(p)}"
    return f"{text}; comes back {summary.returns_text(rule.stability)}" if rule.stability else text


def _alternatives(rule: RuleRecord) -> list[str]:
    also = summary.also_seen_text(rule)
    return [] if also is None else [also]


def _dropped_lines(rule: RuleRecord) -> list[str]:
    dropped = dropped_texts(rule.dropped)
    return [f"{WITHOUT}{', '.join(dropped)}"] if dropped else []


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


def _statement(rule: RuleRecord, document: ResultDocument) -> Statement:
    premise, dropped = condition_texts(rule.premise) or [ALWAYS], dropped_texts(rule.dropped)
    return Statement(premise, predicted_text(rule, document.dataset), dropped)


def _stability_heading(document: ResultDocument) -> list[str]:
    return ["comes\nback"] if document.repeats else []


def _stability_cell(rule: RuleRecord, document: ResultDocument) -> Iterator[Text]:
    if document.repeats and rule.stability:
        stable = (rule.stability.share or 0.0) >= document.repeats.threshold
        yield Text(summary.returns_text(rule.stability), style="bold" if stable else "dim")


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


def _notes(document: ResultDocument) -> Iterator[RenderableType]:
    if document.notes:
        notes = Table.grid(padding=(0, 1))
        notes.add_column(style="yellow")
        notes.add_column(overflow="fold")
        for note in document.notes:
            notes.add_row("!", Text(printable(note)))
        yield _padded(notes)


def _padded(content: RenderableType, below: int = 1) -> Padding:
    """The content with a margin and a blank line below."""
    return Padding(content, (0, 2, below, 2))
