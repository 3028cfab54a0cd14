"""`maabo paper`: the experiments of the paper, each as a command."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

import click

from maabo_dist.cli.options import SectionedCommand, all_of, section_option
from maabo_dist.cli.output import out_option
from maabo_dist.cli.place import Place, place_options
from maabo_dist.cli.progress import Display, Standing, note, shown_progress
from maabo_dist.errors import SettingsError

if TYPE_CHECKING:
    from maabo_dist.research.paper import Case, Experiment, Findings, PaperTable, Result

MOST_SEEDS = 10_000
_HELP = {
    "exp1": ("Rules found by the number of trees (Experiment 1).", 50),
    "exp2": ("Rules found beside columns of noise (Experiment 2).", 50),
    "exp3": ("Which rules are found on three tables (Experiment 3).", 50),
    "app1": ("How much noise a single tree takes in (Appendix 1).", 100),
    "app2": ("The MAA function by mismatches (Appendix 2); nothing is mined.", 1),
    "app3": ("What a sample of the candidates saves and costs (Appendix 3).", 50),
}

_options = all_of(
    section_option(
        "--data",
        section="Table",
        metavar="FILE",
        multiple=True,
        type=click.Path(path_type=Path),
        help="The Titanic or the Boston housing table, told by its columns; repeat it for both.",
    ),
    section_option(
        "--dataset",
        section="Table",
        metavar="NAME",
        multiple=True,
        type=click.Choice(["titanic", "diabetes"]),
        help="titanic (fetched from OpenML) or diabetes, without a file.",
    ),
    section_option("--seeds", section="Search", metavar="N", type=int, help="Seeds 0 … N − 1.  [default: the paper's]"),
    section_option(
        "--jobs", section="Search", metavar="N", type=int, help="Processes that run cases.  [default: all cores]"
    ),
    section_option("--cluster", section="Cluster", is_flag=True, help="Every run is a job of a running cluster."),
    place_options,
    out_option("Also write the raw results as CSV, the table as Markdown and the plot as PNG to this directory."),
    section_option("--json", "as_json", section="Output", is_flag=True, help="As JSON, for programs."),
    section_option("--quiet", "-q", section="Output", is_flag=True, help="No progress and no notes."),
)


@click.group("paper")
def paper_group() -> None:
    """Run an experiment of the paper, and show our figures beside the printed ones."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What was given on the command line."""

    data: tuple[Path, ...]
    dataset: tuple[str, ...]
    seeds: int | None
    jobs: int | None
    place: Place | None
    """The cluster; None for this machine."""
    out: Path | None
    as_json: bool
    quiet: bool

    @classmethod
    def given(cls, *, cluster: bool, place: Place, **values: Any) -> Self:
        """Checked as far as that goes without a table; files can be written, or it is said at once."""
        asked = cls(place=place if cluster else None, **values)
        _check_numbers(asked.seeds, asked.jobs)
        if asked.out is not None:
            from maabo_dist.report.run_folder import make_folder

            make_folder(asked.out)
        return asked

    def say(self, line: str) -> None:
        """A line for people on stderr, unless they want quiet."""
        if not self.quiet:
            note(line)


def _command(name: str, about: str, seeds: int) -> click.Command:
    def call(**given: Any) -> int:
        return _run(name, Asked.given(**given))

    help_text = f"{about}\n\nThe paper has {seeds} seeds." if name != "app2" else about
    made: Callable[..., Any] = _options(call)
    return click.command(name, cls=SectionedCommand, help=help_text, context_settings={"max_content_width": 100})(made)


for _name, (_about, _seeds) in _HELP.items():
    paper_group.add_command(_command(_name, _about, _seeds))


def _run(name: str, asked: Asked) -> int:
    from maabo_dist.research.paper import EXPERIMENTS

    experiment = EXPERIMENTS[name]
    if asked.place is not None and not experiment.jobs:
        raise SettingsError(f"{_why_no_jobs(name)} Leave --cluster out.")
    tables = _tables(experiment, asked)
    results = _results(experiment.cases(tables, asked.seeds or experiment.seeds), tables, asked)
    findings = experiment.findings(results)
    notes = _notes(experiment, tables)
    files = [] if asked.out is None else _written(asked.out, experiment, tables, findings, notes)
    if asked.as_json:
        click.echo(_json(experiment, findings, notes, files))
    else:
        _print(findings)
    for line in (*notes, *(f"wrote {path}." for path in files)):
        asked.say(line)
    return 0


def _check_numbers(seeds: int | None, jobs: int | None) -> None:
    if seeds is not None and not 1 <= seeds <= MOST_SEEDS:
        raise SettingsError(f"--seeds {seeds}: at least 1 and at most {MOST_SEEDS:,} can be run.")
    if jobs is not None and jobs < 1:
        raise SettingsError(f"--jobs {jobs}: at least 1 process is needed.")


def _why_no_jobs(name: str) -> str:
    if name == "app2":
        return "app2 is computed, and nothing in it is mined: there is no job to send."
    return "app1 grows 100 trees for each of its runs and keeps one, and what it shows is the tree: no job gives it."


def _tables(experiment: "Experiment", asked: Asked) -> "list[PaperTable]":
    if not experiment.tables:
        if asked.data or asked.dataset or asked.seeds:
            asked.say(f"{experiment.name} mines nothing; --data, --dataset and --seeds have no effect.")
        return []
    from maabo_dist.research.paper import chosen_tables

    return chosen_tables(experiment.tables, asked.data, asked.dataset)


def _results(cases: "list[Case]", tables: "list[PaperTable]", asked: Asked) -> "list[Result]":
    if not cases:
        return []
    known = {table.name: table for table in tables}
    with shown_progress(quiet=asked.quiet) as display:
        watch = Counter(display, len(cases))
        if asked.place is not None:
            from maabo_dist.cli.paper_jobs import run_jobs

            return run_jobs(cases, known, asked.place, watch, asked.say)
        from maabo_dist.research.paper import run_cases

        return run_cases(cases, known, asked.jobs or _cores(), watch)


class Counter:
    """Tells a display how many cases are done."""

    def __init__(self, display: Display, planned: int) -> None:
        self.display, self.planned, self.start = display, planned, monotonic()
        display.turn_to("running the experiment")

    def __call__(self, done: int) -> None:
        """So many by now."""
        self.display.update(Standing(done, self.planned, monotonic() - self.start, "", unit="runs"))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _notes(experiment: "Experiment", tables: "list[PaperTable]") -> list[str]:
    has = {table.name for table in tables}
    absent = [name for name in experiment.tables if name not in has] if len(experiment.tables) > 1 else []
    left_out = [f"{name.capitalize()} is left out: give its file with --data." for name in absent]
    return [*(said for table in tables if (said := table.origin_note)), *left_out]


def _written(
    out: Path, experiment: "Experiment", tables: "list[PaperTable]", findings: "Findings", notes: list[str]
) -> list[Path]:
    from maabo_dist.research.paper import markdown, write_results

    text = markdown(findings.comparisons, notes)
    # On a table that is not its own, an experiment leaves the files of its own alone.
    other = next((table.name for table in tables if table.name not in experiment.tables), None)
    return write_results(out, experiment.name, other, findings, text, _picture(findings))


def _picture(findings: "Findings") -> bytes | None:
    """The plot; without matplotlib there is none, and people hear what draws it."""
    try:
        from maabo_dist.research.plots import png_of
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        note('no plot is written, as matplotlib is not installed: pip install "maabo-dist[plots]"')
        return None
    return png_of(findings.panels)


def _json(experiment: "Experiment", findings: "Findings", notes: list[str], files: list[Path]) -> bytes:
    document = {
        "experiment": experiment.name,
        "title": experiment.title,
        "tables": [asdict(each) for each in findings.comparisons],
        "rows": findings.rows,
        "notes": notes,
        "files": [str(path) for path in files],
    }
    return json.dumps(document, indent=2, ensure_ascii=False).encode()  # what programs read is UTF-8 everywhere


def _print(findings: "Findings") -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from maabo_dist.report import report_console

    console = report_console(sys.stdout)
    with console.capture() as capture:
        for shown in findings.comparisons:
            table = Table(box=SIMPLE_HEAD, header_style="dim", border_style="dim", padding=(0, 1))
            for place, title in enumerate(shown.head):
                words = place == 0 or any(" " in row[place] and row[place][0].isalpha() for row in shown.rows)
                table.add_column(title, justify="left" if words else "right", overflow="fold")
            for row in shown.rows:
                table.add_row(*map(Text, row))
            console.print(Text(shown.title, style="bold"), table)
            for line in shown.notes:
                console.print(Text(line, style="dim"))
            console.print()
    lines = (line.rstrip() for line in capture.get().splitlines())  # rich fills lines up with spaces
    click.echo("\n".join(lines))
