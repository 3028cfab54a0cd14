"""`maabo jobs`, `status`, `rules`, `watch`, `pause`, `resume` and `cancel`."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from maabo_dist._util.text import format_count, printable
from maabo_dist.cli.cluster import Cluster, ClusterAddress, cluster_options, connect, leave_running, raise_for_failure
from maabo_dist.cli.output import Output, format_options
from maabo_dist.cli.progress import (
    SHUFFLES,
    Display,
    RateEstimate,
    Snapshot,
    format_best,
    format_repeat,
    progress_display,
)
from maabo_dist.console import (
    NOTHING,
    Cell,
    Column,
    combine,
    format_duration,
    format_time,
    json_option,
    print_fields,
    print_json,
    print_note,
    print_table,
)
from maabo_dist.contract.job import SHORT_DIGITS, JobCommand, JobRecord, JobState, Obstacle, short_id
from maabo_dist.contract.result import ResultDocument
from maabo_dist.errors import MaaboError

job_options = combine(click.argument("job"), cluster_options)
_COLUMNS = (
    # On a narrow terminal the ids stay whole, so that they can be copied.
    Column("job", min_width=SHORT_DIGITS),
    Column("state", min_width=max(map(len, JobState))),
    Column("dataset", wrap=True, min_width=12, max_width=30),
    Column("trees", right=True),
    Column("best F1", right=True, wide_only=True),
    Column("rules", right=True),
    Column("age", right=True),
    Column("ran", right=True, wide_only=True),
)
# New rules that are printed at a time.
MAX_NEW_RULES = 10
_ACTIVITIES = {
    JobState.QUEUED: "queued",
    JobState.RUNNING: "searching",
    JobState.MINING: "choosing the rules",
    JobState.PAUSED: "paused",
}
# What `maabo jobs` adds to the state of a job that does not advance. A queued or paused job needs no addition.
_OBSTACLES = {
    "workers": "no workers",
    "busy": "workers busy",
    "slow": "slow",
    "redis": "no Redis",
    "broker": "no broker",
    "store": "no store",
    "scheduler": "no scheduler",
}
_STYLES = {
    JobState.RUNNING: "cyan",
    JobState.MINING: "cyan",
    JobState.PAUSED: "yellow",
    JobState.DONE: "green",
    JobState.FAILED: "red",
    JobState.CANCELLED: "dim",
}


@click.command("jobs")
@click.option("--state", type=click.Choice([state.value for state in JobState]), help="Only jobs in this state.")
@click.option("--limit", type=click.IntRange(min=1), default=20, metavar="N", help="The newest N jobs.  [default: 20]")
@json_option
@cluster_options
def jobs_command(address: ClusterAddress, state: str | None, limit: int, as_json: bool) -> int:
    """List the jobs of a cluster, newest first."""
    cluster = connect(address)
    records, more = cluster.list_jobs(JobState(state) if state else None, limit)
    if as_json:
        print_json([record.model_dump(mode="json") for record in records])
        return 0
    _warn_of_problem(cluster)
    if not records:
        click.echo(f"No job is {state}." if state else f"There are no jobs at {cluster.address}.")
        return 0
    now = time.time()
    print_table(_COLUMNS, [tuple(_cells(record, now)) for record in records])
    if more is None:
        print_note(f"there are more jobs; --limit {2 * limit} shows more of them.")
    elif more:
        print_note(f"{more:,} more; --limit {limit + more} shows all.")
    return 0


@click.command("status")
@json_option
@job_options
def status_command(job: str, address: ClusterAddress, as_json: bool) -> int:
    """Show the state of JOB, given by its id or the first digits of it."""
    cluster = connect(address)
    record = cluster.find(job)
    if as_json:
        click.echo(record.model_dump_json(indent=2))
        return 0
    print_fields(_fields(record))
    if not record.state.ended:
        _warn_of_problem(cluster)
    return 0


@click.command("rules")
@format_options
@job_options
def rules_command(job: str, address: ClusterAddress, **values: Any) -> int:
    """Print the rules of JOB: all of them when it is done, those found so far while it runs.

    JOB may also be the directory or rules.json of a run.
    """
    output = Output.from_options(values)
    if Path(job).exists():
        from maabo_dist.report.run_folder import read_run  # noqa: PLC0415 - pandas and numba take half a second

        output.print_rules(read_run(Path(job))[0])
        return 0
    cluster = connect(address, output.note)
    record = cluster.find(job)
    document = read_rules(cluster, record)
    output.print_rules(document)
    if document.running:
        output.note(f"job {short_id(record.id)} is {record.state.value}; these are the rules found so far.")
    return 0


def _warn_of_problem(cluster: Cluster) -> None:
    if (problem := cluster.find_problem()) is not None:
        print_note(f"{problem}; this information may be out of date.")


def read_rules(cluster: Cluster, record: JobRecord) -> ResultDocument:
    """Return the result document of a job, final or so far; an error if there is none."""
    if record.state is JobState.DONE:
        return cluster.final_document(record.id)
    document = cluster.document(record.id)
    if document is None:
        raise_for_failure(record)
        raise MaaboError(f"There are no rules yet: job {short_id(record.id)} is {record.state.value}.")
    return document


def _control_command(name: JobCommand, results: frozenset[JobState], help_text: str) -> click.Command:
    """Return a command that changes the state of a job; `results` are the states in which it has succeeded."""

    @click.command(name, help=help_text)
    @job_options
    def command(job: str, address: ClusterAddress) -> int:
        cluster = connect(address)
        record = cluster.send_command(cluster.find(job).id, name)
        sentence = f"Job {short_id(record.id)} is {record.state.value}"
        if record.state not in results:
            raise MaaboError(f"{sentence}: it ended before the request was processed.")
        click.echo(f"{sentence}.")
        return 0

    return command


def _cells(record: JobRecord, now: float) -> Iterator[Cell]:
    yield short_id(record.id)
    yield _state(record)
    yield record.name
    yield _trees(record)
    yield _best_score(record)
    yield _rules(record)
    yield format_duration(max(0.0, now - record.created)) if record.created else NOTHING
    yield format_duration(record.seconds)


def _fields(record: JobRecord) -> Iterator[tuple[str, Cell]]:
    yield "job", record.id
    yield "state", _state(record)
    if record.obstacle is not None and not record.state.ended:
        yield "waiting", f"{_obstacle_text(record.obstacle)}. {record.obstacle.remedy}".strip()
    yield "dataset", record.name
    yield "tenant", record.tenant
    yield "priority", record.priority.value
    yield "trees", _trees(record)
    if record.failed:
        yield "failed", f"{record.failed:,} subsets"
    yield "best F1", _best_score(record)
    yield "rules", _rules(record)
    for name, moment in (("created", record.created), ("started", record.started), ("finished", record.finished)):
        if moment:
            yield name, format_time(moment)
    yield "ran", format_duration(record.seconds)
    if record.digest:
        yield "digest", record.digest[:16]
    if record.reason:
        yield "reason", record.reason


def _state(record: JobRecord) -> Cell:
    """Format the state: `running`, or `running: no workers` if the job does not advance."""
    obstacle = None if record.state.ended or record.obstacle is None else _OBSTACLES.get(record.obstacle.kind)
    if obstacle is None:
        return record.state.value, _STYLES.get(record.state, "")
    return f"{record.state.value}: {obstacle}", "yellow"


def _obstacle_text(obstacle: Obstacle) -> str:
    since = "" if obstacle.since is None else f", for {format_duration(max(0.0, time.time() - obstacle.since))}"
    return f"{printable(obstacle.text)}{since}"


def _trees(record: JobRecord) -> str:
    """Format the progress: `reading rows 7 %`, `screening 40 %`, then `120/455 (26 %)`, then `certifying 7/24`."""
    if record.rows and record.rows_read is not None:
        return f"reading rows {100 * record.rows_read // record.rows} %"
    if record.pairs and record.pairs_screened is not None:
        return f"screening {100 * record.pairs_screened // record.pairs} %"
    if record.shuffles and record.shuffles_done is not None:
        return f"certifying {record.shuffles_done:,}/{record.shuffles:,}"
    if not record.planned:
        return f"{record.trees:,}"
    return f"{record.trees:,}/{record.planned:,} ({100 * record.trees // record.planned} %)"


def _best_score(record: JobRecord) -> str:
    return NOTHING if record.best_score is None else f"{record.best_score:.3f}"


def _rules(record: JobRecord) -> str:
    return NOTHING if record.rules is None else f"{record.rules:,}"


@click.command("watch")
@job_options
def watch_command(job: str, address: ClusterAddress) -> int:
    """Show the progress of JOB until it ends.

    The exit code is 0 if it is done and 1 if it failed or was cancelled. Ctrl-C does not affect the job.
    """
    cluster = connect(address)
    _warn_of_problem(cluster)
    (record,) = wait_for_end(cluster, cluster.find(job).id, quiet=False, show_rules=True)
    raise_for_failure(record)
    rules = "" if record.rules is None else f"{format_count(record.rules, 'rule')} from "
    digest = f", digest {record.digest[:16]}" if record.digest else ""
    trees, duration = format_count(record.trees, "tree"), format_duration(record.seconds)
    click.echo(f"Job {short_id(record.id)} is done: {rules}{trees} in {duration}{digest}")
    return 0


def wait_for_end(cluster: Cluster, job: str, *repeats: str, quiet: bool, show_rules: bool = False) -> list[JobRecord]:
    """Show the progress of a job, then of its repeats unless the job failed, and return the final records.

    With `show_rules`, rules are printed as they are found.
    """
    records: list[JobRecord] = []
    with leave_running(job, *repeats), progress_display(quiet=quiet) as display:
        display.activity = "waiting for the cluster"
        for run, each in enumerate((job, *repeats)):
            display.start_job(format_repeat(run, len(repeats)))
            new_rules = NewRules()
            for record in cluster.follow(each):
                _show(display, record)
                if show_rules and new_rules.may_have_changed(record):
                    for line in new_rules.lines(cluster.document(each)):
                        display.print_line(line)
            records.append(cluster.record(each))
            if records[0].state is not JobState.DONE:
                break
    return records


class NewRules:
    """Finds the rules of a job that were not printed before."""

    def __init__(self) -> None:
        self._count: int | None = None
        self._printed: set[str] = set()

    def may_have_changed(self, record: JobRecord) -> bool:
        """Return True if the number of rules is another than in the previous record."""
        before, self._count = self._count, record.rules
        return record.rules not in {None, 0, before}

    def lines(self, document: ResultDocument | None) -> Iterator[str]:
        """Yield a line for each new rule, up to `MAX_NEW_RULES`."""
        rules = () if document is None else document.rules
        new = [rule for rule in rules if rule.text not in self._printed]
        self._printed |= {rule.text for rule in new}
        for rule in new[:MAX_NEW_RULES]:
            yield f"{printable(rule.text)}  {format_evidence(rule.n, rule.validation.precision)}"
        if len(new) > MAX_NEW_RULES:
            yield f"… and {len(new) - MAX_NEW_RULES:,} more"


def format_evidence(n: int, precision: float | None) -> str:
    """Format the evidence of a rule: `(n 120, precision 0.83 on validation rows)`."""
    return f"(n {n:,}" + ("" if precision is None else f", precision {precision:.2f} on validation rows") + ")"


def _show(display: Display, record: JobRecord) -> None:
    obstacle = None if record.state.ended else record.obstacle
    if obstacle is not None and obstacle.kind != "paused":
        # Without an estimate, which would stand still.
        display.set_activity(f"waiting: {printable(obstacle.text)}. {printable(obstacle.remedy)}".rstrip())
        display.rate = RateEstimate()
        display.update(Snapshot(record.trees, record.planned, record.seconds, ""))
        return
    if record.rows is not None and record.rows_read is not None and not record.state.ended:
        display.set_activity("drawing the sample" if record.state is JobState.RUNNING else "counting all rows")
        display.update(Snapshot(record.rows_read, record.rows, record.seconds, "", unit="rows"))
        return
    if record.pairs is not None and record.pairs_screened is not None and record.state is JobState.RUNNING:
        display.set_activity("screening sets of features")
        display.update(Snapshot(record.pairs_screened, record.pairs, record.seconds, "", unit="sets"))
        return
    if record.shuffles is not None and record.shuffles_done is not None and record.state is JobState.MINING:
        display.set_activity("certifying")
        display.update(Snapshot(record.shuffles_done, record.shuffles, record.seconds, "", unit=SHUFFLES))
        return
    if record.state in _ACTIVITIES:
        display.set_activity(_ACTIVITIES[record.state])
    rules = "" if record.rules is None else f"{format_count(record.rules, 'rule')} so far"
    snapshot = Snapshot(record.trees, record.planned, record.seconds, "")
    details = filter(None, [display.rate.format_rate(snapshot), format_best(record.best_score), rules])
    display.update(replace(snapshot, details=", ".join(details)))


JOB_COMMANDS = (
    jobs_command,
    status_command,
    rules_command,
    watch_command,
    _control_command(
        "pause", frozenset({JobState.PAUSED}), "Pause JOB: no more tasks are sent to workers until it is resumed."
    ),
    _control_command("resume", frozenset(state for state in JobState if not state.ended), "Resume a paused JOB."),
    _control_command("cancel", frozenset({JobState.CANCELLED}), "Cancel JOB. This cannot be undone."),
)
