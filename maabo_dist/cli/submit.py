"""`maabo submit`: the same as `maabo mine`, on a cluster."""

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from maabo_dist.cli.cluster_port import Wishes
from maabo_dist.cli.options import SectionedCommand, all_of, section_option
from maabo_dist.cli.output import Output, explain_option, format_options, out_option, report_option
from maabo_dist.cli.place import Place, place_options
from maabo_dist.cli.remote import check_not_failed, connect, goes_on, left_running
from maabo_dist.cli.source import Source, source_options
from maabo_dist.cli.watch import wait_for_end
from maabo_dist.contract.ids import short_id
from maabo_dist.contract.job import JobState, Priority
from maabo_dist.contract.record import JobRecord
from maabo_dist.errors import MaaboError, SettingsError
from maabo_dist.settings import RepeatSettings

if TYPE_CHECKING:
    from maabo_dist.cli.cluster_port import Cluster

_HELP = """Mine rules from DATA on a cluster; prints the id of the job.

\b
  maabo submit customers.csv --target churned --redis redis://cluster:6379/0
  maabo submit customers.csv --target churned --server https://maabo.example --token-file token
  maabo submit customers.csv --target churned --wait --json > rules.json

Over its Redis, the table is prepared here and sent, unless the cluster has it; with --server, the
file goes to the server as it is.
"""

_cluster_options = all_of(
    place_options,
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
        help="For whom the job is.  [default: default, or with --server the token's]",
    ),
    section_option(
        "--fresh",
        section="Cluster",
        is_flag=True,
        help="With --server: mine anew, even where the same table was mined with the same settings before.",
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
@report_option
@out_option("With --wait, also write rules.json, rules.csv and run.json to this directory.")
def submit_command(place: Place, wait: bool, **given: Any) -> int:
    """Send a job to a cluster; `_HELP` is what the user reads."""
    source, output = Source.given(given), _checked_output(given, wait=wait)
    cluster = connect(place, output.say)
    order = cluster.order(source, Wishes.given(given))
    if output.explains:
        output.explain(source.mining, order.features())
    with left_running(*order.ids, standing="may be queued already"):
        records = order.send()
    if wait:
        _wait(cluster, records, source.repeating, output)
    else:
        _show(records[0], output)
    return 0


def _checked_output(given: dict[str, Any], *, wait: bool) -> Output:
    """Met before anything is sent: what needs rules needs `--wait`."""
    form, repeats = given["format_"], given["repeats"]
    for option, needs in (
        (f"--format {form}", form not in {"table", "json"}),
        ("--out", given["out"] is not None),
        ("--report", given["report"] is not None),
        (f"--repeats {repeats}", repeats not in {None, "0"}),
    ):
        if needs and not wait:
            raise SettingsError(f"{option} is for rules, and there are none before the job is done. Add --wait.")
    return Output.given(given)


def _wait(cluster: "Cluster", jobs: list[JobRecord], wanted: RepeatSettings, output: Output) -> None:
    first, *repeats = jobs
    record, *others = wait_for_end(cluster, *(job.id for job in jobs), quiet=output.quiet)
    if record.state is not JobState.DONE and repeats:
        output.say(goes_on([each.id for each in repeats]))
    check_not_failed(record)
    document = json.loads(cluster.final_document(first.id))
    if repeats:
        from maabo_dist.report.stability import with_repeats

        document = with_repeats(document, _documents(cluster, others, output), wanted)
    started = datetime.fromtimestamp(record.started or record.created, UTC)
    exhibits = None if output.report is None else cluster.exhibits(first.id)
    output.write(document, None, {"started": started.isoformat(timespec="seconds"), "job": first.id}, exhibits)
    output.show(document)


def _documents(cluster: "Cluster", repeats: list[JobRecord], output: Output) -> list[Any]:
    """Of the repeats that were done; of the others, people hear."""
    for record in repeats:
        try:
            check_not_failed(record)
        except MaaboError as error:
            output.say(str(error))
    return [json.loads(cluster.final_document(each.id)) for each in repeats if each.state is JobState.DONE]


def _show(record: JobRecord, output: Output) -> None:
    click.echo(record.model_dump_json(indent=2) if output.format == "json" else record.id)
    output.say(f"job submitted; `maabo watch {short_id(record.id)}` follows it.")
