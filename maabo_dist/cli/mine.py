"""`maabo mine`: mine a file or a bundled table in this process, and print the rules."""

import os
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from maabo_dist.cli.cluster import repeat_settings_of
from maabo_dist.cli.options import SectionedCommand, section_option
from maabo_dist.cli.output import Output, explain_option, format_options, out_option, report_option
from maabo_dist.cli.progress import graceful_interrupt, progress_display
from maabo_dist.cli.source import Source, source_options
from maabo_dist.console.commands import INTERRUPTED
from maabo_dist.contract.result import ResultDocument, StopReason
from maabo_dist.errors import SettingsError

if TYPE_CHECKING:
    from maabo_dist.mining.result import MiningResult
    from maabo_dist.report.figures import FigureData

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
def mine_command(jobs: int | None, **values: object) -> int:
    """Mine rules; `_HELP` is the help text."""
    source, threads = Source.from_options(values), _count_threads(jobs)
    output = Output.from_options(values)
    started = datetime.now(UTC)
    document, figures, result = _run(source, threads, output)
    run = {"started": started.isoformat(timespec="seconds"), "jobs": threads}
    output.write_files(document, result.forest, run, figures)
    output.print_rules(document)
    repeats = document.repeats
    unfinished = repeats is not None and repeats.done < repeats.asked
    return INTERRUPTED if unfinished or result.search.stopped is StopReason.INTERRUPTED else 0


def _run(source: Source, jobs: int, output: Output) -> "tuple[ResultDocument, FigureData | None, MiningResult]":
    with progress_display(quiet=output.quiet) as display:
        # pandas and numba take half a second to import; the progress display covers it.
        from maabo_dist.mining.local import mine  # noqa: PLC0415
        from maabo_dist.mining.repeats import mine_repeats  # noqa: PLC0415
        from maabo_dist.report.document import result_document  # noqa: PLC0415
        from maabo_dist.report.figures import figures_of  # noqa: PLC0415
        from maabo_dist.report.stability import with_repeats  # noqa: PLC0415

        table, table_settings = source.prepare()
        output.explain(source.mining, table.columns.count)
        repeats = repeat_settings_of(source, table.columns)
        repeat_documents: list[ResultDocument] = []
        display.repeats = len(repeats)
        with graceful_interrupt(display):
            display.start_search()
            result = mine(
                table.columns,
                source.mining,
                jobs=jobs,
                progress=display.report,
                keep_trees=output.out is not None,
                keep_records=output.report is not None,
            )
            if repeats and not display.stopping:
                results = mine_repeats(table.columns, repeats, jobs, display.report_repeat)
                repeat_documents.extend(result_document(each, {"name": "repeat"}) for each in results)
    # The display passes Ctrl-C on to the search as a request to stop.
    stopped = StopReason.INTERRUPTED if result.search.stopped is StopReason.REQUESTED else result.search.stopped
    result = replace(result, notes=(*table.notes, *result.notes), search=replace(result.search, stopped=stopped))
    figures = None if output.report is None else figures_of(result, table.columns)
    dataset = {"name": source.name, "settings": table_settings.model_dump(mode="json")}
    document = result_document(result, dataset)
    if repeats:
        document = with_repeats(document, repeat_documents, source.repeating)
    return document, figures, result


def _count_threads(jobs: int | None) -> int:
    """Return `jobs`, or the number of cores of this process, which a container may limit."""
    if jobs is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if jobs < 1:
        raise SettingsError(f"--jobs {jobs}: at least 1 thread is needed.")
    return jobs
