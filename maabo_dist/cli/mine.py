"""`maabo mine` and `maabo submit`: mine a file or a bundled table, in this process or on a cluster."""

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from maabo_dist.cli.cluster import (
    Cluster,
    ClusterAddress,
    SubmitOptions,
    cluster_option,
    cluster_options,
    connect,
    describe_running,
    leave_running,
    raise_for_failure,
    repeat_settings_of,
)
from maabo_dist.cli.jobs import wait_for_end
from maabo_dist.cli.mine_dataset import open_large, run_dataset, sample_option
from maabo_dist.cli.options import SectionedCommand, Source, section_option, source_options
from maabo_dist.cli.output import Output, mining_output_options, out_option
from maabo_dist.cli.progress import graceful_interrupt, progress_display, with_interrupt
from maabo_dist.console import INTERRUPTED, combine
from maabo_dist.contract.job import JobRecord, JobState, Priority, short_id
from maabo_dist.contract.result import ResultDocument, StopReason
from maabo_dist.errors import MaaboError, SettingsError
from maabo_dist.settings import RepeatSettings

if TYPE_CHECKING:
    from maabo_dist.data.columns import Columns
    from maabo_dist.mining.result import MiningResult
    from maabo_dist.report.figures import FigureData


_MINE_HELP = """Mine rules from DATA: a CSV, TSV, JSON lines, Excel, Parquet or Feather file, or - for standard input;
or a directory, a glob or a URL of Parquet or CSV files.

\b
  maabo mine customers.csv --target churned
  maabo mine prices.parquet --target price --target-above median --holdout 0.2
  maabo mine sales/ --target churned
  maabo mine --dataset diabetes --format sql
"""


@click.command("mine", cls=SectionedCommand, help=_MINE_HELP, context_settings={"max_content_width": 100})
@source_options
@section_option(
    "--jobs",
    section="Search",
    type=int,
    metavar="N",
    help="Threads that grow trees; the rules do not depend on it.  [default: all cores]",
)
@sample_option
@mining_output_options
@out_option("Also write rules.json, rules.csv, trees.bin and run.json to this directory.")
def mine_command(jobs: int | None, sample: str | None, **values: object) -> int:
    """Mine rules; `_MINE_HELP` is the help text."""
    source, threads = Source.from_options(values), count_threads(jobs)
    output = Output.from_options(values)
    started = datetime.now(UTC)
    document, figures, result = _run(source, sample, threads, output)
    run = {"started": started.isoformat(timespec="seconds"), "jobs": threads}
    output.write_files(document, result.forest, run, figures)
    output.print_rules(document)
    repeats = document.repeats
    unfinished = repeats is not None and repeats.done < repeats.asked
    uncertified = result.certificate is not None and result.certificate.stopped
    return INTERRUPTED if unfinished or uncertified or result.search.stopped is StopReason.INTERRUPTED else 0


def _run(
    source: Source, sample: str | None, jobs: int, output: Output
) -> "tuple[ResultDocument, FigureData | None, MiningResult]":
    with progress_display(quiet=output.quiet) as display:
        large = open_large(source, sample)
        if large is not None:
            return run_dataset(source, large, jobs, output, display)
        # pandas and numba take half a second to import; the progress display covers it.
        from maabo_dist.mining.local import mine  # noqa: PLC0415
        from maabo_dist.mining.repeats import mine_repeats  # noqa: PLC0415
        from maabo_dist.report.coverage import with_coverage  # noqa: PLC0415
        from maabo_dist.report.document import result_document  # noqa: PLC0415
        from maabo_dist.report.figures import figures_of  # noqa: PLC0415
        from maabo_dist.report.stability import with_repeats  # noqa: PLC0415

        table, table_settings = source.prepare()
        output.explain(source.mining, table.columns)
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
    result = with_interrupt(replace(result, notes=(*table.notes, *result.notes)))
    figures = None if output.report is None else figures_of(result, table.columns)
    dataset = {"name": source.name, "settings": table_settings.model_dump(mode="json")}
    document = with_coverage(result_document(result, dataset), table.columns)
    if repeats:
        document = with_repeats(document, repeat_documents, source.repeating, table.columns)
    return document, figures, result


def count_threads(jobs: int | None) -> int:
    """Return `jobs`, or the number of cores of this process, which a container may limit."""
    if jobs is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if jobs < 1:
        raise SettingsError(f"--jobs {jobs}: at least 1 thread is needed.")
    return jobs


_SUBMIT_HELP = """Mine rules from DATA on a cluster, and print the id of the job.

\b
  maabo submit customers.csv --target churned --redis redis://cluster:6379/0
  maabo submit customers.csv --target churned --server https://maabo.example --token-file token
  maabo submit customers.csv --target churned --wait --json > rules.json

With --redis, the table is prepared here and sent, unless the cluster already has it. With --server,
the file is uploaded as it is.
"""

_submit_options = combine(
    cluster_options,
    cluster_option("--wait", is_flag=True, help="Wait for the rules, and print them as mine does."),
    cluster_option("--name", metavar="TEXT", help="Name of the table.  [default: its file name]"),
    cluster_option(
        "--priority",
        type=click.Choice([priority.value for priority in Priority]),
        default=Priority.NORMAL.value,
        help="A job with higher priority gets a larger share of the workers.  [default: normal]",
    ),
    cluster_option(
        "--tenant",
        metavar="TEXT",
        help="Tenant of the job.  [default: default; with --server, the tenant of the token]",
    ),
    cluster_option(
        "--fresh",
        is_flag=True,
        help="With --server: start a new job even if one with the same table and settings exists.",
    ),
)


@click.command("submit", cls=SectionedCommand, help=_SUBMIT_HELP, context_settings={"max_content_width": 100})
@source_options
@section_option(
    "--jobs", section="Search", type=int, metavar="N", help="No effect; accepted for compatibility with mine."
)
@section_option(
    "--sample",
    section="Search",
    metavar="N|all",
    help="Rows of a directory to search if it has more; the workers count the evidence on all rows. all sends the "
    "table to the cluster as a whole.  [default: 200000]",
)
@_submit_options
@mining_output_options
@out_option("With --wait, also write rules.json, rules.csv and run.json to this directory.")
def submit_command(address: ClusterAddress, wait: bool, sample: str | None, **values: Any) -> int:
    """Submit a job; `_SUBMIT_HELP` is the help text."""
    source, output = Source.from_options(values), _check_output(values, wait=wait)
    cluster = connect(address, output.note)
    names = ("name", "priority", "tenant", "fresh", "quiet")
    options = {name: values[name] for name in names}
    submission = cluster.prepare(source, SubmitOptions(sample=sample, **options))
    if output.explains:
        for line in submission.explained:
            output.note(line)
        if not submission.explained:
            output.explain(source.mining, submission.read_columns())
    with leave_running(*submission.ids, possibly_queued=True):
        records = submission.send()
    if wait:
        _wait(cluster, records, source.repeating, output, submission.read_columns)
    else:
        record = records[0]
        click.echo(record.model_dump_json(indent=2) if output.format == "json" else record.id)
        output.note(f"job submitted; `maabo watch {short_id(record.id)}` follows it.")
    return 0


def _check_output(values: dict[str, Any], *, wait: bool) -> Output:
    """Reject options that need the rules, and so `--wait`, before anything is sent."""
    form, repeats = values["format_"], values["repeats"]
    for option, needs_rules in (
        (f"--format {form}", form not in {"table", "json"}),
        ("--out", values["out"] is not None),
        ("--report", values["report"] is not None),
        (f"--repeats {repeats}", repeats not in {None, "0"}),
    ):
        if needs_rules and not wait:
            raise SettingsError(f"{option} needs the rules, which exist only when the job is done. Add --wait.")
    return Output.from_options(values)


def _wait(
    cluster: Cluster,
    jobs: list[JobRecord],
    repeating: RepeatSettings,
    output: Output,
    read_columns: Callable[[], "Columns"],
) -> None:
    first, *repeats = jobs
    record, *others = wait_for_end(cluster, *(job.id for job in jobs), quiet=output.quiet)
    if record.state is not JobState.DONE and repeats:
        output.note(describe_running([each.id for each in repeats]))
    raise_for_failure(record)
    document = cluster.final_document(first.id)
    if repeats:
        # pandas and numba take half a second to import, and most jobs have no repeats.
        from maabo_dist.report.stability import with_repeats  # noqa: PLC0415

        document = with_repeats(document, _repeat_documents(cluster, others, output), repeating, read_columns())
    started = datetime.fromtimestamp(record.started or record.created, UTC)
    figures = None if output.report is None else cluster.figures(first.id)
    output.write_files(document, None, {"started": started.isoformat(timespec="seconds"), "job": first.id}, figures)
    output.print_rules(document)


def _repeat_documents(cluster: Cluster, repeats: list[JobRecord], output: Output) -> list[ResultDocument]:
    """Return the documents of the repeats that are done, and report the others."""
    for record in repeats:
        try:
            raise_for_failure(record)
        except MaaboError as error:
            output.note(str(error))
    done = [each.id for each in repeats if each.state is JobState.DONE]
    return [cluster.final_document(job) for job in done]
