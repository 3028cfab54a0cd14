"""`maabo watch`, and waiting for jobs to end."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from maabo_dist._util.text import format_count, printable
from maabo_dist.cli.cluster import check_not_failed, job_argument, leave_running, warn_if_idle
from maabo_dist.cli.connection import ClusterAddress, cluster_options, connect
from maabo_dist.cli.progress import Display, Snapshot, format_best, format_repeat, progress_display
from maabo_dist.console.tables import format_duration
from maabo_dist.contract.ids import short_id
from maabo_dist.contract.job import JobState
from maabo_dist.contract.record import JobRecord
from maabo_dist.contract.result import ResultDocument

if TYPE_CHECKING:
    from maabo_dist.cli.cluster import Cluster

# New rules that are printed at a time.
MAX_NEW_RULES = 10
_ACTIVITIES = {
    JobState.QUEUED: "queued",
    JobState.RUNNING: "searching",
    JobState.MINING: "choosing the rules",
    JobState.PAUSED: "paused",
}


@click.command("watch")
@job_argument
@cluster_options
def watch_command(job: str, address: ClusterAddress) -> int:
    """Show the progress of JOB until it ends.

    The exit code is 0 if it is done and 1 if it failed or was cancelled. Ctrl-C does not affect the job.
    """
    cluster = connect(address)
    warn_if_idle(cluster)
    (record,) = wait_for_end(cluster, cluster.find(job).id, quiet=False, show_rules=True)
    check_not_failed(record)
    click.echo(_conclusion(record))
    return 0


def wait_for_end(cluster: "Cluster", job: str, *repeats: str, quiet: bool, show_rules: bool = False) -> list[JobRecord]:
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

    def lines(self, document: str | None) -> Iterator[str]:
        """Yield a line for each new rule, up to `MAX_NEW_RULES`."""
        rules = () if document is None else ResultDocument.parse_text(document).rules
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
    if record.pairs is not None and record.pairs_screened is not None and record.state is JobState.RUNNING:
        display.set_activity("screening pairs of features")
        display.update(Snapshot(record.pairs_screened, record.pairs, record.seconds, "", unit="pairs"))
        return
    if record.state in _ACTIVITIES:
        display.set_activity(_ACTIVITIES[record.state])
    rules = "" if record.rules is None else f"{format_count(record.rules, 'rule')} so far"
    snapshot = Snapshot(record.trees, record.planned, record.seconds, "")
    details = filter(None, [display.rate.format_rate(snapshot), format_best(record.best_score), rules])
    display.update(replace(snapshot, details=", ".join(details)))


def _conclusion(record: JobRecord) -> str:
    rules = "" if record.rules is None else f"{format_count(record.rules, 'rule')} from "
    digest = f", digest {record.digest[:16]}" if record.digest else ""
    trees, duration = format_count(record.trees, "tree"), format_duration(record.seconds)
    return f"Job {short_id(record.id)} is done: {rules}{trees} in {duration}{digest}"
