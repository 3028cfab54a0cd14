"""`maabo paper`: the experiments of the paper, each as a command."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from maabo_dist.cli.options import SectionedCommand, all_of, section_option
from maabo_dist.cli.output import out_option
from maabo_dist.cli.place import Place, place_options
from maabo_dist.cli.progress import Display, Standing, note, shown_progress
from maabo_dist.errors import SettingsError

if TYPE_CHECKING:
    from maabo_dist.paper import Case, Experiment, Findings, PaperTable, Result

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


def _command(name: str, about: str, seeds: int) -> click.Command:
    def call(**given: Any) -> int:
        return _run(name, **given)

    help_text = f"{about}\n\nThe paper has {seeds} seeds." if name != "app2" else about
    made: Callable[..., Any] = _options(call)
    return click.command(name, cls=SectionedCommand, help=help_text, context_settings={"max_content_width": 100})(made)


for _name, (_about, _seeds) in _HELP.items():
    paper_group.add_command(_command(_name, _about, _seeds))


def _run(
    name: str,
    *,
    data: tuple[Path, ...],
    dataset: tuple[str, ...],
    seeds: int | None,
    jobs: int | None,
    cluster: bool,
    place: Place,
    out: Path | None,
    as_json: bool,
    quiet: bool,
) -> int:
    _check_numbers(seeds, jobs)
    if out is not None:
        from maabo_dist.report.run_folder import make_folder

        make_folder(out)
    from maabo_dist.paper import EXPERIMENTS

    experiment = EXPERIMENTS[name]
    if cluster and not experiment.jobs:
        raise SettingsError(f"{_why_no_jobs(name)} Leave --cluster out.")
    tables = _tables(experiment, data, dataset)
    cases = experiment.cases(tables, seeds or experiment.seeds)
    results = _results(cases, tables, place if cluster else None, jobs, quiet=quiet)
    findings = experiment.findings(results)
    notes = _notes(experiment, tables)
    files = [] if out is None else _written(out, experiment, tables, findings, notes)
    _show(experiment, findings, notes, files, as_json=as_json, quiet=quiet)
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


def _tables(experiment: "Experiment", data: tuple[Path, ...], dataset: tuple[str, ...]) -> "list[PaperTable]":
    if not experiment.tables:
        if data or dataset:
            note(f"{experiment.name} needs no table; --data and --dataset have no effect.")
        return []
    from maabo_dist.paper import chosen_tables

    return chosen_tables(experiment.tables, data, dataset)


def _results(
    cases: "list[Case]", tables: "list[PaperTable]", place: Place | None, jobs: int | None, *, quiet: bool
) -> "list[Result]":
    if not cases:
        return []
    known = {table.name: table for table in tables}
    if place is not None:
        from maabo_dist.cli.paper_jobs import run_jobs

        return run_jobs(cases, known, place, quiet=quiet)
    from maabo_dist.paper import run_cases

    with shown_progress(quiet=quiet) as display:
        return run_cases(cases, known, jobs or _cores(), Counter(display, len(cases)))


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
    from maabo_dist.paper import markdown, write_results

    text = markdown(findings.comparisons, notes)
    (other,) = [table.name for table in tables if len(experiment.tables) == 1 and table.name not in experiment.tables] or [
        None
    ]
    return write_results(out, experiment.name, other, findings, text, _picture(findings))


def _picture(findings: "Findings") -> bytes | None:
    """The plot; without matplotlib there is none, and people hear what draws it."""
    from maabo_dist import plots

    try:
        return plots.png_of(findings.panels)
    except SettingsError as error:
        note(f"no plot is written. {error}")
        return None


def _show(
    experiment: "Experiment", findings: "Findings", notes: list[str], files: list[Path], *, as_json: bool, quiet: bool
) -> None:
    if as_json:
        document = {
            "experiment": experiment.name,
            "title": experiment.title,
            "tables": [asdict(each) for each in findings.comparisons],
            "rows": findings.rows,
            "notes": notes,
            "files": [str(path) for path in files],
        }
        click.echo(json.dumps(document, indent=2, ensure_ascii=False).encode())
        return
    _print(findings)
    for line in [] if quiet else [*notes, *(f"wrote {path}." for path in files)]:
        note(line)


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
                table.add_column(title, justify="left" if place == 0 else "right", overflow="fold")
            for row in shown.rows:
                table.add_row(*map(Text, row))  # names come from files: none of them is rich markup
            console.print(Text(shown.title, style="bold"))
            console.print(table)
            for line in shown.notes:
                console.print(Text(line, style="dim"))
            console.print()
    lines = (line.rstrip() for line in capture.get().splitlines())  # rich fills lines up with spaces
    click.echo("\n".join(lines))
