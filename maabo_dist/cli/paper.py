"""`maabo paper`: the experiments of the paper, each as a command."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from maabo_dist.cli.cluster import ClusterAddress, cluster_options
from maabo_dist.cli.mine import count_threads
from maabo_dist.cli.options import SectionedCommand, section_option
from maabo_dist.cli.output import out_option
from maabo_dist.cli.progress import Snapshot, progress_display
from maabo_dist.console import Column, combine, print_note, print_table
from maabo_dist.errors import SettingsError

# The experiments and what they compute with are imported by the functions that need them: `maabo --help` imports this
# module, and pandas and numba would add a second to it.
if TYPE_CHECKING:
    from maabo_dist.research.paper.cases import Case, Experiment, Result
    from maabo_dist.research.paper.output import Findings
    from maabo_dist.research.paper.tables import PaperTable

MAX_SEEDS = 10_000
_EXPERIMENTS = {
    "exp1": ("Count the rules found as the number of trees grows (Experiment 1).", 50),
    "exp2": ("Count the rules found as columns of noise are added (Experiment 2).", 50),
    "exp3": ("Compare the rules of four methods on three tables (Experiment 3).", 50),
    "app1": ("Measure how many noise columns a single tree uses (Appendix 1).", 100),
    "app2": ("Compute the MAA function by the number of mismatches (Appendix 2). Mines nothing.", 1),
    "app3": ("Measure what comparing fewer candidates saves and costs (Appendix 3).", 50),
}
_NOT_AS_JOBS = {
    "app1": "app1 grows 100 trees for each run and reports on the best one, which a job cannot return.",
    "app2": "app2 computes a function and mines nothing, so there is no job to submit.",
}

_options = combine(
    section_option(
        "--data",
        section="Table",
        metavar="FILE",
        multiple=True,
        type=click.Path(path_type=Path),
        help="The Titanic or the Boston housing table, recognised by its columns. Repeat the option to give both.",
    ),
    section_option(
        "--dataset",
        section="Table",
        metavar="NAME",
        multiple=True,
        type=click.Choice(["titanic", "diabetes"]),
        help="A table that needs no file: titanic (fetched from OpenML) or diabetes.",
    ),
    section_option(
        "--seeds",
        section="Search",
        metavar="N",
        type=click.IntRange(1, MAX_SEEDS),
        help="Run with seeds 0 to N − 1.  [default: as many as in the paper]",
    ),
    section_option(
        "--jobs",
        section="Search",
        metavar="N",
        type=click.IntRange(1),
        help="Number of processes.  [default: all cores]",
    ),
    section_option("--cluster", section="Cluster", is_flag=True, help="Run each case as a job on a cluster."),
    cluster_options,
    out_option("Also write the raw results as CSV, the tables as Markdown and the plot as PNG to this directory."),
    section_option("--json", "as_json", section="Output", is_flag=True, help="Print all results as JSON."),
    section_option("--quiet", "-q", section="Output", is_flag=True, help="Print no progress and no notes."),
)


@click.group("paper")
def paper_group() -> None:
    """Run an experiment of the paper, and print its results next to those in the paper."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command line."""

    data: tuple[Path, ...]
    dataset: tuple[str, ...]
    seeds: int | None
    jobs: int | None
    address: ClusterAddress | None  # the cluster; None for this machine
    out: Path | None
    as_json: bool
    quiet: bool

    def note(self, line: str) -> None:
        """Print a line to stderr, unless --quiet."""
        if not self.quiet:
            print_note(line)


def _command(name: str, about: str, seeds: int) -> click.Command:
    def call(*, cluster: bool, address: ClusterAddress, **options: Any) -> int:
        return _run(name, Options(address=address if cluster else None, **options))

    help_text = f"{about}\n\nThe paper uses {seeds} seeds." if name != "app2" else about
    callback: Callable[..., Any] = _options(call)
    context = {"max_content_width": 100}
    return click.command(name, cls=SectionedCommand, help=help_text, context_settings=context)(callback)


for _name, (_about, _seeds) in _EXPERIMENTS.items():
    paper_group.add_command(_command(_name, _about, _seeds))


def _run(name: str, options: Options) -> int:
    from maabo_dist.report.run_folder import make_folder  # noqa: PLC0415 - 0.4 s
    from maabo_dist.research.paper import EXPERIMENTS  # noqa: PLC0415 - 0.6 s

    experiment = EXPERIMENTS[name]
    if options.address is not None and not experiment.jobs:
        raise SettingsError(f"{_NOT_AS_JOBS[name]} Run it without --cluster.")
    if options.out is not None:
        make_folder(options.out)  # before the work, so that a wrong path costs no time
    tables = _choose_tables(experiment, options)
    results = _run_cases(experiment.cases(tables, options.seeds or experiment.seeds), tables, options)
    findings = experiment.findings(results)
    notes = _table_notes(experiment, tables)
    files = []
    if options.out is not None:
        # On a table that the paper does not use, an experiment does not overwrite the files of the paper's tables.
        other = next((f"-{table.name}" for table in tables if table.name not in experiment.tables), "")
        files = findings.write(options.out, f"{name}{other}", name, findings.markdown(notes), _plot(findings))
    if options.as_json:
        document = {
            "experiment": experiment.name,
            "title": experiment.title,
            "tables": [asdict(each) for each in findings.comparisons],
            "rows": findings.rows,
            "notes": notes,
            "files": [str(path) for path in files],
        }
        # UTF-8 whatever the locale, for programs
        click.echo(json.dumps(document, indent=2, ensure_ascii=False).encode())
    else:
        _print(findings)
    for line in (*notes, *(f"wrote {path}." for path in files)):
        options.note(line)
    return 0


def _choose_tables(experiment: "Experiment", options: Options) -> "list[PaperTable]":
    if not experiment.tables:
        if options.data or options.dataset or options.seeds:
            options.note(f"{experiment.name} mines nothing; --data, --dataset and --seeds have no effect.")
        return []
    from maabo_dist.research.paper.tables import choose_tables  # noqa: PLC0415 - 0.6 s

    return choose_tables(experiment.tables, options.data, options.dataset)


def _run_cases(cases: "list[Case]", tables: "list[PaperTable]", options: Options) -> "list[Result]":
    if not cases:
        return []
    by_name = {table.name: table for table in tables}
    with progress_display(quiet=options.quiet) as display:
        start = monotonic()
        display.set_activity("running the experiment")

        def report_progress(done: int) -> None:
            display.update(Snapshot(done, len(cases), monotonic() - start, "", unit="runs"))

        if options.address is not None:
            from maabo_dist.cli.paper_jobs import run_jobs  # noqa: PLC0415 - 0.7 s

            return run_jobs(cases, by_name, options.address, report_progress, options.note)
        from maabo_dist.research.paper.cases import run_cases  # noqa: PLC0415 - 0.7 s

        return run_cases(cases, by_name, count_threads(options.jobs), report_progress)


def _table_notes(experiment: "Experiment", tables: "list[PaperTable]") -> list[str]:
    names = {table.name for table in tables}
    absent = [name for name in experiment.tables if name not in names] if len(experiment.tables) > 1 else []
    omitted = [f"{name.capitalize()} is omitted: give its file with --data." for name in absent]
    return [*(line for table in tables if (line := table.size_note)), *omitted]


def _plot(findings: "Findings") -> bytes | None:
    """The plot as PNG; None with a note if matplotlib is not installed."""
    try:
        from maabo_dist.research.paper.plotting import draw_png  # noqa: PLC0415 - 1 s, loads matplotlib
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        print_note('No plot is written, because matplotlib is not installed: pip install "maabo-dist[plots]"')
        return None
    return draw_png(findings.panels)


def _print(findings: "Findings") -> None:
    for comparison in findings.comparisons:
        click.secho(comparison.title, bold=True)
        # Numbers and notes such as "not printed" are aligned at the right, other text at the left.
        texts = [
            any(" " in cell and cell[0].isalpha() for cell in cells) for cells in zip(*comparison.rows, strict=True)
        ]
        print_table(
            [
                Column(title, right=index > 0 and not is_text, wrap=True)
                for index, (title, is_text) in enumerate(zip(comparison.head, texts, strict=True))
            ],
            comparison.rows,
        )
        for line in comparison.notes:
            click.secho(line, dim=True)
        click.echo()
