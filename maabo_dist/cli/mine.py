"""`maabo mine`: from a file to rules on the screen, in this process.

What takes long to import is imported when the command runs, so that `--help` answers at once.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from maabo_dist.cli.options import SectionedCommand, SectionOption, given_settings, settings_options
from maabo_dist.cli.progress import polite_interrupt, shown_progress
from maabo_dist.errors import SettingsError
from maabo_dist.settings import MiningSettings, TableSettings

if TYPE_CHECKING:
    from pandas import DataFrame

    from maabo_dist.mining import MiningResult
    from maabo_dist.report import Document

FORMATS = ("table", "json", "csv", "markdown", "sql", "pandas")
INTERRUPTED = 130

_HELP = """Mine rules from DATA, a CSV, TSV, Parquet or Feather file.

\b
  maabo mine customers.csv --target churned
  maabo mine prices.parquet --target price --target-above median --holdout 0.2
  maabo mine --dataset diabetes --format sql
"""

_TABLE_SECTIONS = {"": "Table"}
_MINING_SECTIONS = (
    {"": "Search"}
    | dict.fromkeys(("split_seed", "test_size", "holdout", "stratify"), "Split")
    | dict.fromkeys(("min_samples", "gini", "similarity", "similarity_by"), "Rules")
)
_METAVARS = {"target": "COLUMN", "include": "COLUMNS", "exclude": "COLUMNS", "na_values": "TEXTS", "trees": "N|SHARE%"}

_option = partial(click.option, cls=SectionOption)


@dataclass(frozen=True, slots=True)
class _Source:
    """Where the table comes from: a file or a bundled one."""

    data: str | None
    dataset: str | None
    given: dict[str, Any]
    """The table settings that the user gave."""

    @property
    def name(self) -> str:
        return self.dataset or Path(self.data or "").name

    def check(self) -> None:
        """Meet mistakes before the slow imports."""
        if self.data is None and self.dataset is None:
            raise SettingsError("No table is given. Name a file, or a bundled table with --dataset diabetes.")
        if self.data is not None and self.dataset is not None:
            raise SettingsError(f"Both a file ({self.data}) and --dataset {self.dataset} are given. Give one of them.")
        TableSettings.parse(self.given)

    def read(self) -> "tuple[DataFrame, TableSettings]":
        from maabo_dist.data import load_bundled, read_table

        if self.dataset is None:
            settings = TableSettings.parse(self.given)
            return read_table(self.data or "", na_values=settings.na_values), settings
        frame, defaults = load_bundled(self.dataset)
        return frame, TableSettings.parse(_without_overruled(defaults, self.given) | self.given)


@dataclass(frozen=True, slots=True)
class _Output:
    """Where the result goes, and in what form."""

    format: str
    table_name: str
    out: Path | None
    quiet: bool

    def check(self) -> None:
        """Make the directory before the search, which may take hours."""
        if self.out is not None:
            from maabo_dist.report.run_folder import make_folder

            make_folder(self.out)

    def write(self, document: "Document", result: "MiningResult", run: Mapping[str, Any]) -> None:
        if self.out is not None:
            from maabo_dist.report import write_folder

            write_folder(self.out, document, result.forest, run)

    def show(self, document: "Document") -> None:
        from maabo_dist import report

        match self.format:
            case "table":
                report.print_report(document, report.report_console(sys.stdout), only_rules=self.quiet)
                return
            case "json":
                text = report.dump_document(document)
            case "csv":
                text = report.to_csv(document)
            case "markdown":
                text = report.to_markdown(document)
            case "sql":
                text = report.to_sql(document, self.table_name)
            case _:
                text = report.to_pandas(document)
        click.echo(text.encode(), nl=False)  # as bytes: what programs read is UTF-8 on every system
        for note in () if self.quiet else document["notes"]:
            click.echo(f"maabo: {note}", err=True)


@click.command("mine", cls=SectionedCommand, help=_HELP, context_settings={"max_content_width": 100})
@click.argument("data", required=False)
@_option(
    "--dataset",
    section="Table",
    metavar="NAME",
    help="Instead of a file, a bundled table: diabetes, breast_cancer, wine or titanic (fetched from OpenML).",
)
@settings_options(TableSettings, _TABLE_SECTIONS, _METAVARS)
@settings_options(MiningSettings, _MINING_SECTIONS, _METAVARS)
@_option(
    "--jobs",
    section="Search",
    type=int,
    metavar="N",
    help="Threads that grow trees; the rules do not depend on it.  [default: all cores]",
)
@_option(
    "--format",
    "format_",
    section="Output",
    type=click.Choice(FORMATS),
    default="table",
    help="What is printed.  [default: table]",
)
@_option("--json", "as_json", section="Output", is_flag=True, help="The same as --format json.")
@_option(
    "--table-name",
    section="Output",
    default="data",
    metavar="NAME",
    help="Name of the table in --format sql.  [default: data]",
)
@_option(
    "--out",
    section="Output",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Also write rules.json, rules.csv, trees.bin and run.json to this directory.",
)
@_option("--quiet", "-q", section="Output", is_flag=True, help="Nothing but the rules: no progress, header or notes.")
def mine_command(
    data: str | None,
    dataset: str | None,
    jobs: int | None,
    format_: str,
    as_json: bool,
    table_name: str,
    out: Path | None,
    quiet: bool,
    **given: object,
) -> int:
    """Mine rules from a file or a bundled table; `_HELP` is what the user reads."""
    source = _Source(data, dataset, given_settings(TableSettings, given))
    settings = MiningSettings.parse(given_settings(MiningSettings, given))
    output = _Output("json" if as_json else format_, table_name, out, quiet)
    threads = _threads(jobs)
    source.check()
    output.check()
    started = datetime.now(UTC)
    document, result = _run(source, settings, threads, output)
    output.write(document, result, {"started": started.isoformat(timespec="seconds"), "jobs": threads})
    output.show(document)
    return INTERRUPTED if result.search.stopped == "interrupted" else 0


def _run(source: _Source, settings: MiningSettings, jobs: int, output: _Output) -> "tuple[Document, MiningResult]":
    with shown_progress(quiet=output.quiet) as display:
        from maabo_dist.data import prepare
        from maabo_dist.mining import mine
        from maabo_dist.report import result_document

        frame, table_settings = source.read()
        table = prepare(frame, table_settings)
        with polite_interrupt(display):
            display.search_begins()
            keep_trees = output.out is not None
            result = mine(table.columns, settings, jobs=jobs, progress=display.report, keep_trees=keep_trees)
    # "asked" is how the search heard of a Ctrl-C.
    stopped = "interrupted" if result.search.stopped == "asked" else result.search.stopped
    result = replace(result, notes=(*table.notes, *result.notes), search=replace(result.search, stopped=stopped))
    dataset = {"name": source.name, "settings": table_settings.model_dump(mode="json")}
    return result_document(result, dataset), result


def _without_overruled(defaults: TableSettings, given: Mapping[str, Any]) -> dict[str, Any]:
    """A bundled table's settings; its way to cut the target goes when another target or another cut is given."""
    kept = defaults.model_dump(exclude_unset=True)
    if {"target", "target_above", "target_quantiles"} & given.keys():
        kept.pop("target_above", None)
        kept.pop("target_quantiles", None)
    return kept


def _threads(jobs: int | None) -> int:
    """As many as asked for, or as this process has cores, which in a container are fewer than the machine's."""
    if jobs is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if jobs < 1:
        raise SettingsError(f"--jobs {jobs}: at least 1 thread is needed.")
    return jobs
