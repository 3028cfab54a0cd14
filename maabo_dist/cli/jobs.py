"""`maabo jobs`, `status`, `rules`, `pause`, `resume` and `cancel`: what is known and what is wanted of jobs."""

import json
import time
from typing import TYPE_CHECKING, Any

import click

from maabo_dist.cli.output import Output, format_options
from maabo_dist.cli.progress import note
from maabo_dist.cli.remote import check_not_failed, connect, job_argument, redis_option, warn_if_idle
from maabo_dist.cluster.ids import shown_id
from maabo_dist.contract.job import JobState
from maabo_dist.contract.record import JobRecord
from maabo_dist.errors import MaaboError

if TYPE_CHECKING:
    from maabo_dist.cluster.client import QueueClient, Wish

_json_option = click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")


@click.command("jobs")
@click.option("--state", type=click.Choice([state.value for state in JobState]), help="Only jobs in this state.")
@click.option("--limit", type=click.IntRange(min=1), default=20, metavar="N", help="The newest N jobs.  [default: 20]")
@_json_option
@redis_option
def jobs_command(redis_url: str | None, state: str | None, limit: int, as_json: bool) -> int:
    """List the jobs of a cluster, the newest first."""
    client = connect(redis_url)
    found = [record for record in client.jobs() if state in {None, record.state.value}]
    records = found[:limit]
    if as_json:
        click.echo(json.dumps([record.model_dump(mode="json") for record in records], indent=2, ensure_ascii=False))
        return 0
    warn_if_idle(client)
    if not records:
        click.echo(f"No job is {state}." if state else f"There are no jobs at {client.address}.")
        return 0
    from maabo_dist.cli.listing import print_jobs

    print_jobs(records, time.time())
    if len(found) > limit:
        note(f"{len(found) - limit:,} more; --limit {len(found)} shows all.")
    return 0


@click.command("status")
@job_argument
@_json_option
@redis_option
def status_command(job: str, redis_url: str | None, as_json: bool) -> int:
    """Show where JOB stands. JOB is an id, or its first digits."""
    client = connect(redis_url)
    record = client.find(job)
    if as_json:
        click.echo(record.model_dump_json(indent=2))
        return 0
    from maabo_dist.cli.listing import print_record

    print_record(record)
    if not record.state.ended:
        warn_if_idle(client)
    return 0


@click.command("rules")
@job_argument
@format_options
@redis_option
def rules_command(job: str, redis_url: str | None, **given: Any) -> int:
    """Print the rules of JOB: all of them when it is done, those found so far while it runs."""
    output = Output.given(given)
    client = connect(redis_url, output.say)
    record = client.find(job)
    document = json.loads(_rules_text(client, record))
    output.show(document)
    if document["search"]["stopped"] == "running":
        output.say(f"job {shown_id(record.id)} is {record.state.value}; these are the rules it has found so far.")
    return 0


def _rules_text(client: "QueueClient", record: JobRecord) -> str:
    if record.state is JobState.DONE:
        return client.final_document(record.id)
    text = client.document(record.id)
    if text is None:
        check_not_failed(record)
        raise MaaboError(f"There are no rules yet: job {shown_id(record.id)} is {record.state.value}.")
    return text


def _wishing(wish: "Wish", wanted: frozenset[JobState], help_text: str) -> click.Command:
    """A command that asks for a change; `wanted` are the states in which it has come about."""

    @click.command(wish, help=help_text)
    @job_argument
    @redis_option
    def command(job: str, redis_url: str | None) -> int:
        client = connect(redis_url)
        record = client.ask(client.find(job).id, wish)
        sentence = f"Job {shown_id(record.id)} is {record.state.value}"
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
