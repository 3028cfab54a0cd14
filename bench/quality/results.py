"""The files of a run: records as CSV and a table in Markdown for each experiment, and documents with all tables."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.quality.experiment import Check, Experiment, Page, Record, Summary, Value

HERE = Path(__file__).parent
RESULTS, README = HERE / "results", HERE / "README.md"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"


def write_records(path: Path, records: Sequence[Record]) -> None:
    names = list(dict.fromkeys(name for record in records for name in record))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _short(value) for name, value in record.items()} for record in records)


def read_records(path: Path) -> list[Record]:
    with path.open(newline="", encoding="utf-8") as file:
        return [{name: _value(text) for name, text in row.items()} for row in csv.DictReader(file)]


def markdown(experiment: Experiment, summary: Summary, conditions: str) -> str:
    parts = [f"### {experiment.title}", experiment.about, _grid(summary.columns, summary.rows)]
    if summary.checks:
        parts.append(_grid(["goal", "", "figure", ""], [_verdict(check) for check in summary.checks]))
    parts += [*summary.notes, f"*{conditions}*"]
    return "\n\n".join(parts) + "\n"


def assemble(experiments: Iterable[Experiment], results: Path, readme: Path) -> None:
    """Write the tables of all experiments that have been run between the markers of their documents."""
    pages: dict[Page, list[str]] = {}
    for experiment in experiments:
        if (results / f"{experiment.name}.md").exists():
            page = experiment.page or Page(readme, "results")
            pages.setdefault(page, []).append(_part(experiment.name, results, page))
    for page, parts in pages.items():
        _fill(page, "".join(parts))


def _fill(page: Page, text: str) -> None:
    begin, end = f"<!-- {page.mark}: begin -->", f"<!-- {page.mark}: end -->"
    head, begun, rest = page.path.read_text(encoding="utf-8").partition(begin)
    _, ended, tail = rest.partition(end)
    if not (begun and ended):
        raise SystemExit(f"{page.path} has no place for the table: the line {begin} or {end} is missing.")
    page.path.write_text(f"{head}{begin}\n\n{text}{end}{tail}", encoding="utf-8")


def _part(name: str, results: Path, page: Page) -> str:
    picture = f"![{name}]({page.results}/{name}.png)\n\n" if (results / f"{name}.png").exists() else ""
    return f"{(results / f'{name}.md').read_text(encoding='utf-8')}\n{picture}"


def _grid(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    ruler = "|".join(["---", *["---:"] * (len(columns) - 1)])
    lines = ["| " + " | ".join(cells) + " |" for cells in (columns, *rows)]
    return "\n".join([lines[0], f"|{ruler}|", *lines[1:]])


def _verdict(check: Check) -> list[str]:
    verdict = "met" if check.goal.met(check.value) else "**missed**"
    return [check.what, f"{check.goal}{check.unit}", f"{check.value:.3g}{check.unit}", verdict]


def _short(value: Value) -> Value:
    return f"{value:.6g}" if isinstance(value, float) else value


def _value(text: str) -> Value:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text or None
