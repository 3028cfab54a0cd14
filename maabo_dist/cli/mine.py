"""`maabo mine`: from a file to rules on the screen, in this process.

What takes long to import is imported when the command runs, so that `--help` answers at once.
"""

import os
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from maabo_dist.cli.options import SectionedCommand, section_option
from maabo_dist.cli.output import Output, explain_option, format_options, out_option, report_option
from maabo_dist.cli.progress import INTERRUPTED, Display, polite_interrupt, shown_progress
from maabo_dist.cli.source import Source, source_options
from maabo_dist.contract.result import StopReason
from maabo_dist.errors import SettingsError

if TYPE_CHECKING:
    from maabo_dist.data.columns import Columns
    from maabo_dist.mining.result import MiningResult
    from maabo_dist.report import Document, Exhibits
    from maabo_dist.settings import MiningSettings

_HELP = """Mine rules from DATA, a CSV, TSV, Parquet or Feather file.

\b
  maabo mine customers.csv --target churned
  maabo mine prices.parquet --target price --target-above median --holdout 0.2
  maabo mine --dataset diabetes --format sql
"""


@click.command("mine", cls=SectionedCommand, help=_HELP, context_settings={"max_content_width": 100})
@source_options
@section_option(
    "--jobs",
    section="Search",
    type=int,
    metavar="N",
    help="Threads that grow trees; the rules do not depend on it.  [default: all cores]",
)
@format_options
@explain_option
@report_option
@out_option("Also write rules.json, rules.csv, trees.bin and run.json to this directory.")
def mine_command(jobs: int | None, **given: object) -> int:
    """Mine rules from a file or a bundled table; `_HELP` is what the user reads."""
    source, threads = Source.given(given), _threads(jobs)
    output = Output.given(given)
    started = datetime.now(UTC)
    document, exhibits, result = _run(source, threads, output)
    run = {"started": started.isoformat(timespec="seconds"), "jobs": threads}
    output.write(document, result.forest, run, exhibits)
    output.show(document)
    repeats = document["repeats"] or {"done": 0, "asked": 0}
    return INTERRUPTED if result.search.stopped is StopReason.INTERRUPTED or repeats["done"] < repeats["asked"] else 0


def _run(source: Source, jobs: int, output: Output) -> "tuple[Document, Exhibits | None, MiningResult]":
    with shown_progress(quiet=output.quiet) as display:
        from maabo_dist.mining.local import mine
        from maabo_dist.report import result_document

        table, table_settings = source.prepared()
        output.explain(source.mining, table.columns.count)
        repeats = _Repeats(source, table.columns, jobs, display)
        with polite_interrupt(display):
            display.search_begins()
            result = mine(
                table.columns,
                source.mining,
                jobs=jobs,
                progress=display.report,
                keep_trees=output.out is not None,
                keep_records=output.report is not None,
            )
            repeats.run()
    # "asked" is how the search heard of a Ctrl-C.
    stopped = StopReason.INTERRUPTED if result.search.stopped is StopReason.REQUESTED else result.search.stopped
    result = replace(result, notes=(*table.notes, *result.notes), search=replace(result.search, stopped=stopped))
    dataset = {"name": source.name, "settings": table_settings.model_dump(mode="json")}
    exhibits = None if output.report is None else _exhibits(result, table.columns)
    return repeats.added_to(result_document(result, dataset)), exhibits, result


def _exhibits(result: "MiningResult", columns: "Columns") -> "Exhibits":
    from maabo_dist.report import exhibits_of

    return exhibits_of(result, columns)


class _Repeats:
    """The repeats that were asked for, if any; a table too small for them is met when this is made."""

    def __init__(self, source: Source, columns: "Columns", jobs: int, display: Display) -> None:
        self.wanted, self.columns, self.jobs, self.display = source.repeating, columns, jobs, display
        self.drawn: tuple[MiningSettings, ...] = ()
        self.documents: list[Document] = []
        if self.wanted.repeats:
            from maabo_dist.mining.repeats import check_repeats, repeat_settings

            self.drawn = repeat_settings(source.mining, self.wanted.repeats)
            check_repeats(columns, self.drawn)
            display.repeats = len(self.drawn)

    def run(self) -> None:
        """Mine them one after another, until all are done or a Ctrl-C was heard."""
        if self.drawn and not self.display.stopping:
            from maabo_dist.mining.repeats import mine_repeats
            from maabo_dist.report import result_document

            results = mine_repeats(self.columns, self.drawn, self.jobs, self.display.report_repeat)
            self.documents.extend(result_document(result, {"name": "repeat"}) for result in results)

    def added_to(self, document: "Document") -> "Document":
        """The document with what came back."""
        if not self.drawn:
            return document
        from maabo_dist.report.stability import with_repeats

        return with_repeats(document, self.documents, self.wanted)


def _threads(jobs: int | None) -> int:
    """As many as asked for, or as this process has cores, which in a container are fewer than the machine's."""
    if jobs is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if jobs < 1:
        raise SettingsError(f"--jobs {jobs}: at least 1 thread is needed.")
    return jobs
