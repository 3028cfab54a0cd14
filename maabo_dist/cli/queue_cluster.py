"""A cluster over its Redis: tables are prepared here, and their columns sent."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from maabo_dist.cli.cluster_port import Listing, Wishes
from maabo_dist.cli.progress import repeat_text, shown_progress
from maabo_dist.cli.remote import check_not_failed
from maabo_dist.cli.repeats import repeats_of
from maabo_dist.cli.source import Source
from maabo_dist.cluster.queue_client import QueueClient
from maabo_dist.contract.job import DatasetRef, JobSpec, JobState
from maabo_dist.contract.record import JobRecord
from maabo_dist.search.plan import SearchPlan

if TYPE_CHECKING:
    from maabo_dist.data.columns import Columns

_MOST_NAME = 200
_MOST_NOTE = 2000
_MOST_NOTES = 100


class QueueCluster(QueueClient):
    """The client of the queue, with what only the command line asks."""

    def idle(self) -> bool:
        """Whether no scheduler is running."""
        return self.cluster() is None

    def listing(self, state: JobState | None, most: int) -> Listing:
        """Jobs that have a record, the newest first."""
        found = [record for record in self.jobs() if state in {None, record.state}]
        return Listing(found[:most], max(0, len(found) - most))

    def exhibits(self, job: str) -> dict[str, Any] | None:  # noqa: ARG002 - whatever the job
        """They lie in the store, which a client need not reach."""
        return None

    def order(self, source: Source, wishes: Wishes) -> "QueueOrder":
        """The table prepared, and the documents of its jobs."""
        with shown_progress(quiet=wishes.quiet):
            table, settings = source.prepared()
        # The schedulers would refuse it too, but later.
        SearchPlan.settle(source.mining, table.columns.count + source.mining.probes)
        document = {
            "id": uuid4().hex,
            "dataset": {
                "fingerprint": table.columns.fingerprint,
                "name": wishes.name or source.name[:_MOST_NAME],
                "settings": settings,
                "notes": tuple(note[:_MOST_NOTE] for note in table.notes[:_MOST_NOTES]),
            },
            "settings": source.mining,
            "priority": wishes.priority,
            "tenant": wishes.tenant or "default",
        }
        spec = JobSpec.parse(document)
        return QueueOrder(self, (spec, *_repeats(source, spec, table.columns)), table.columns)


@dataclass(frozen=True, slots=True)
class QueueOrder:
    """Jobs over the queue."""

    cluster: QueueCluster
    specs: tuple[JobSpec, ...]
    columns: "Columns"

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids are made here."""
        return tuple(spec.id for spec in self.specs)

    def features(self) -> int:
        """Of the columns."""
        return self.columns.count

    def send(self) -> list[JobRecord]:
        """The table goes with the first job."""
        first, *repeats = self.specs
        record = self.cluster.submit(first, self.columns)
        check_not_failed(record)
        return [record, *(self.cluster.submit(spec, None) for spec in repeats)]


def _repeats(source: Source, spec: JobSpec, columns: "Columns") -> list[JobSpec]:
    """The repeats that were asked for, as jobs beside that of the table itself."""
    drawn = repeats_of(source, columns)
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
