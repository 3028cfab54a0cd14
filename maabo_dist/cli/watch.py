"""`maabo watch`: a job's progress until it ends."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from maabo_dist._util.text import printable
from maabo_dist.cli.place import Place, place_options
from maabo_dist.cli.progress import Display, Standing, best_text, duration_text, repeat_text, shown_progress
from maabo_dist.cli.remote import check_not_failed, connect, job_argument, left_running, warn_if_idle
from maabo_dist.contract.ids import short_id
from maabo_dist.contract.job import JobState
from maabo_dist.contract.record import JobRecord

if TYPE_CHECKING:
    from maabo_dist.cli.cluster_port import Cluster

MOST_TOLD = 10
"""New rules that are told at a time."""
_ACTIVITIES = {
    JobState.QUEUED: "queued",
    JobState.RUNNING: "searching",
    JobState.MINING: "choosing the rules",
    JobState.PAUSED: "paused",
}


@click.command("watch")
@job_argument
@place_options
def watch_command(job: str, place: Place) -> int:
    """Show the progress of JOB until it ends.

    Exit code 0 when it is done, 1 when it failed or was cancelled. Ctrl-C leaves the job alone.
    """
    cluster = connect(place)
    warn_if_idle(cluster)
    (record,) = wait_for_end(cluster, cluster.find(job).id, quiet=False, telling=True)
    check_not_failed(record)
    click.echo(_conclusion(record))
    return 0


def wait_for_end(cluster: "Cluster", job: str, *repeats: str, quiet: bool, telling: bool = False) -> list[JobRecord]:
    """Show where the job stands until it has ended, then its repeats, unless it failed; their last records.

    With `telling`, rules are told as they are found.
    """
    records: list[JobRecord] = []
    with left_running(job, *repeats), shown_progress(quiet=quiet) as display:
        display.activity = "asking the cluster"
        for run, each in enumerate((job, *repeats)):
            display.head(repeat_text(run, len(repeats)))
            found = RulesFound()
            for record in cluster.follow(each):
                _show(display, record)
                if telling and found.changed(record):
                    for line in found.lines(cluster.document(each)):
                        display.tell(line)
            records.append(cluster.record(each))
            if records[0].state is not JobState.DONE:
                break
    return records


class RulesFound:
    """Which rules of a job were told already."""

    def __init__(self) -> None:
        self._count: int | None = None
        self._told: set[str] = set()

    def changed(self, record: JobRecord) -> bool:
        """Whether a look at the rules may show new ones."""
        before, self._count = self._count, record.rules
        return record.rules not in {None, 0, before}

    def lines(self, document: str | None) -> Iterator[str]:
        """One for each of the first new rules."""
        rules = [] if document is None else json.loads(document)["rules"]
        new = [rule for rule in rules if rule["text"] not in self._told]
        self._told |= {rule["text"] for rule in new}
        for rule in new[:MOST_TOLD]:
            yield f"{printable(rule['text'])}  {_worth(rule)}"
        if len(new) > MOST_TOLD:
            yield f"… and {len(new) - MOST_TOLD:,} more"


def _worth(rule: dict[str, Any]) -> str:
    precision = rule["validation"]["precision"]
    return f"(n {rule['n']:,}" + ("" if precision is None else f", precision {precision:.2f} on validation rows") + ")"


def _show(display: Display, record: JobRecord) -> None:
    from maabo_dist._util.text import counted

    if record.pairs is not None and record.pairs_screened is not None and record.state is JobState.RUNNING:
        display.turn_to("screening pairs of features")
        display.update(Standing(record.pairs_screened, record.pairs, record.seconds, "", unit="pairs"))
        return
    if record.state in _ACTIVITIES:
        display.turn_to(_ACTIVITIES[record.state])
    rules = "" if record.rules is None else f"{counted(record.rules, 'rule')} so far"
    standing = Standing(record.trees, record.planned, record.seconds, "")
    findings = ", ".join(filter(None, [display.pace.speed(standing), best_text(record.best_score), rules]))
    display.update(replace(standing, findings=findings))


def _conclusion(record: JobRecord) -> str:
    from maabo_dist._util.text import counted

    found = "" if record.rules is None else f"{counted(record.rules, 'rule')} from "
    digest = f", digest {record.digest[:16]}" if record.digest else ""
    trees, time = counted(record.trees, "tree"), duration_text(record.seconds)
    return f"Job {short_id(record.id)} is done: {found}{trees} in {time}{digest}"
