"""`maabo jobs`, `status`, `rules`, `pause`, `resume` and `cancel`: what is known and what is wanted of jobs."""

import json
import time
from typing import TYPE_CHECKING, Any

import click

from maabo_dist.cli.output import Output, format_options
from maabo_dist.cli.place import Place, place_options
from maabo_dist.cli.progress import note
from maabo_dist.cli.remote import check_not_failed, connect, job_argument, warn_if_idle
from maabo_dist.contract.ids import short_id
from maabo_dist.contract.job import JobState
from maabo_dist.contract.record import JobCommand, JobRecord
from maabo_dist.errors import MaaboError

if TYPE_CHECKING:
    from maabo_dist.cli.cluster_port import Cluster

json_option = click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")


@click.command("jobs")
@click.option("--state", type=click.Choice([state.value for state in JobState]), help="Only jobs in this state.")
@click.option("--limit", type=click.IntRange(min=1), default=20, metavar="N", help="The newest N jobs.  [default: 20]")
@json_option
@place_options
def jobs_command(place: Place, state: str | None, limit: int, as_json: bool) -> int:
    """List the jobs of a cluster, the newest first."""
    cluster = connect(place)
    listing = cluster.listing(JobState(state) if state else None, limit)
    records = listing.records
    if as_json:
        click.echo(json.dumps([record.model_dump(mode="json") for record in records], indent=2, ensure_ascii=False))
        return 0
    warn_if_idle(cluster)
    if not records:
        click.echo(f"No job is {state}." if state else f"There are no jobs at {cluster.address}.")
        return 0
    from maabo_dist.cli.listing import print_jobs

    print_jobs(records, time.time())
    if listing.more is None:
        note(f"there are more; --limit {2 * limit} shows more of them.")
    elif listing.more:
        note(f"{listing.more:,} more; --limit {limit + listing.more} shows all.")
    return 0


@click.command("status")
@job_argument
@json_option
@place_options
def status_command(job: str, place: Place, as_json: bool) -> int:
    """Show where JOB stands. JOB is an id, or its first digits."""
    cluster = connect(place)
    record = cluster.find(job)
    if as_json:
        click.echo(record.model_dump_json(indent=2))
        return 0
    from maabo_dist.cli.listing import print_record

    print_record(record)
    if not record.state.ended:
        warn_if_idle(cluster)
    return 0


@click.command("rules")
@job_argument
@format_options
@place_options
def rules_command(job: str, place: Place, **given: Any) -> int:
    """Print the rules of JOB: all of them when it is done, those found so far while it runs."""
    output = Output.given(given)
    cluster = connect(place, output.say)
    record = cluster.find(job)
    document = json.loads(rules_text(cluster, record))
    output.show(document)
    if document["search"]["stopped"] == "running":
        output.say(f"job {short_id(record.id)} is {record.state.value}; these are the rules it has found so far.")
    return 0


def rules_text(cluster: "Cluster", record: JobRecord) -> str:
    """The document of a job, final or so far; without one, the command ends."""
    if record.state is JobState.DONE:
        return cluster.final_document(record.id)
    text = cluster.document(record.id)
    if text is None:
        check_not_failed(record)
        raise MaaboError(f"There are no rules yet: job {short_id(record.id)} is {record.state.value}.")
    return text


def _wishing(wish: JobCommand, wanted: frozenset[JobState], help_text: str) -> click.Command:
    """A command that asks for a change; `wanted` are the states in which it has come about."""

    @click.command(wish, help=help_text)
    @job_argument
    @place_options
    def command(job: str, place: Place) -> int:
        cluster = connect(place)
        record = cluster.ask(cluster.find(job).id, wish)
        sentence = f"Job {short_id(record.id)} is {record.state.value}"
        if record.state not in wanted:
            raise MaaboError(f"{sentence}: it ended before the request was heard.")
        click.echo(f"{sentence}.")
        return 0

    return command


pause_command = _wishing(
    "pause", frozenset({JobState.PAUSED}), "Pause JOB: no more trees are sent to workers until it is resumed."
)
resume_command = _wishing(
    "resume", frozenset(state for state in JobState if not state.ended), "Let a paused JOB go on."
)
cancel_command = _wishing("cancel", frozenset({JobState.CANCELLED}), "End JOB for good.")
