"""`maabo submit`: the same as `maabo mine`, on a cluster."""

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import click

from maabo_dist.cli.options import SectionedCommand, all_of, section_option
from maabo_dist.cli.output import Output, explain_option, format_options, out_option
from maabo_dist.cli.progress import repeat_text, shown_progress
from maabo_dist.cli.remote import check_not_failed, connect, goes_on, left_running, redis_option
from maabo_dist.cli.source import Source, source_options
from maabo_dist.cli.watch import wait_for_end
from maabo_dist.cluster.ids import shown_id
from maabo_dist.contract.job import DatasetRef, JobSpec, JobState, Priority
from maabo_dist.contract.record import JobRecord
from maabo_dist.errors import MaaboError, SettingsError
from maabo_dist.settings import RepeatSettings, SearchPlan

if TYPE_CHECKING:
    from maabo_dist.cluster.client import QueueClient
    from maabo_dist.data import Columns

_HELP = """Mine rules from DATA on a cluster; prints the id of the job.

\b
  maabo submit customers.csv --target churned --redis redis://cluster:6379/0
  maabo submit customers.csv --target churned --wait --json > rules.json

The table is prepared here and sent, unless the cluster has it.
"""

_MOST_NAME = 200
_MOST_NOTE = 2000
_MOST_NOTES = 100

_cluster_options = all_of(
    redis_option,
    section_option("--wait", section="Cluster", is_flag=True, help="Wait for the rules, and print them as mine does."),
    section_option("--name", section="Cluster", metavar="TEXT", help="What the table is called.  [default: its file]"),
    section_option(
        "--priority",
        section="Cluster",
        type=click.Choice([priority.value for priority in Priority]),
        default=Priority.NORMAL.value,
        help="A job of higher priority gets more of the workers.  [default: normal]",
    ),
    section_option(
        "--tenant",
        section="Cluster",
        metavar="TEXT",
        default="default",
        help="For whom the job is.  [default: default]",
    ),
)


@click.command("submit", cls=SectionedCommand, help=_HELP, context_settings={"max_content_width": 100})
@source_options
@section_option(
    "--jobs", section="Search", type=int, metavar="N", help="Has no effect on a cluster; taken as mine takes it."
)
@_cluster_options
@format_options
@explain_option
@out_option("With --wait, also write rules.json, rules.csv and run.json to this directory.")
def submit_command(redis_url: str | None, wait: bool, **given: Any) -> int:
    """Send a job to a cluster; `_HELP` is what the user reads."""
    source, output = Source.given(given), _checked_output(given, wait=wait)
    client = connect(redis_url, output.say)
    spec, columns = _prepared(source, given, quiet=output.quiet)
    repeats = _repeats(source, spec, columns)
    output.explain(source.mining, columns.count)
    with left_running(spec.id, *(each.id for each in repeats), standing="may be queued already"):
        record = client.submit(spec, columns)
        check_not_failed(record)
        for each in repeats:
            client.submit(each, None)
    if wait:
        _wait(client, spec, repeats, source.repeating, output)
    else:
        _show(record, output)
    return 0


def _checked_output(given: dict[str, Any], *, wait: bool) -> Output:
    """Met before anything is sent: what needs rules needs `--wait`."""
    form, repeats = given["format_"], given["repeats"]
    for option, needs in (
        (f"--format {form}", form not in {"table", "json"}),
        ("--out", given["out"] is not None),
        (f"--repeats {repeats}", repeats not in {None, "0"}),
    ):
        if needs and not wait:
            raise SettingsError(f"{option} is for rules, and there are none before the job is done. Add --wait.")
    return Output.given(given)


def _prepared(source: Source, given: dict[str, Any], *, quiet: bool) -> "tuple[JobSpec, Columns]":
    with shown_progress(quiet=quiet):
        table, settings = source.prepared()
    # The schedulers would refuse it too, but later.
    SearchPlan.settle(source.mining, table.columns.count + source.mining.probes)
    document = {
        "id": uuid4().hex,
        "dataset": {
            "fingerprint": table.columns.fingerprint,
            "name": given["name"] or source.name[:_MOST_NAME],
            "settings": settings,
            "notes": tuple(note[:_MOST_NOTE] for note in table.notes[:_MOST_NOTES]),
        },
        "settings": source.mining,
        "priority": given["priority"],
        "tenant": given["tenant"],
    }
    return JobSpec.parse(document), table.columns


def _repeats(source: Source, spec: JobSpec, columns: "Columns") -> "list[JobSpec]":
    """The repeats that were asked for, as jobs beside that of the table itself."""
    if not source.repeating.repeats:
        return []
    from maabo_dist.stability import check_draws, repeat_settings

    drawn = repeat_settings(source.mining, source.repeating.repeats)
    check_draws(columns, drawn)
    return [
        spec.model_copy(
            update={"id": uuid4().hex, "settings": settings, "dataset": _named(spec, repeat_text(run, len(drawn)))}
        )
        for run, settings in enumerate(drawn, 1)
    ]


def _named(spec: JobSpec, repeat: str) -> DatasetRef:
    """The dataset under a name that tells the repeat from others in a list of jobs."""
    suffix = f" ({repeat})"
    return spec.dataset.model_copy(update={"name": spec.dataset.name[: _MOST_NAME - len(suffix)] + suffix})


def _wait(client: "QueueClient", spec: JobSpec, repeats: list[JobSpec], wanted: RepeatSettings, output: Output) -> None:
    record, *others = wait_for_end(client, spec.id, *(each.id for each in repeats), quiet=output.quiet)
    if record.state is not JobState.DONE and repeats:
        output.say(goes_on([each.id for each in repeats]))
    check_not_failed(record)
    document = json.loads(client.final_document(spec.id))
    if repeats:
        from maabo_dist.stability import with_repeats

        document = with_repeats(document, _documents(client, others, output), wanted)
    started = datetime.fromtimestamp(record.started or record.created, UTC)
    output.write(document, None, {"started": started.isoformat(timespec="seconds"), "job": spec.id})
    output.show(document)


def _documents(client: "QueueClient", repeats: list[JobRecord], output: Output) -> list[Any]:
    """Of the repeats that were done; of the others, people hear."""
    for record in repeats:
        try:
            check_not_failed(record)
        except MaaboError as error:
            output.say(str(error))
    return [json.loads(client.final_document(each.id)) for each in repeats if each.state is JobState.DONE]


def _show(record: JobRecord, output: Output) -> None:
    click.echo(record.model_dump_json(indent=2) if output.format == "json" else record.id)
    output.say(f"job submitted; `maabo watch {shown_id(record.id)}` follows it.")
