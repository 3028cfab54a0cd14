"""`QueueCluster`: a cluster reached through its Redis. Tables are prepared here, and their columns are sent."""

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from maabo_dist.cli.cluster import Submission, SubmitOptions, raise_for_failure, repeat_settings_of
from maabo_dist.cli.mine_dataset import LargeTable, explain_large, open_directory
from maabo_dist.cli.options import Source
from maabo_dist.cli.progress import format_repeat, progress_display
from maabo_dist.cluster.queue_client import QueueClient
from maabo_dist.contract.job import DatasetRef, JobRecord, JobSpec, JobState, fingerprint_of_files
from maabo_dist.errors import SettingsError
from maabo_dist.search.plan import SearchPlan
from maabo_dist.settings import TableSettings
from maabo_dist.study import check_classes

if TYPE_CHECKING:
    from maabo_dist.data.columns import Columns

# Limits of the job document.
MAX_NAME = 200
MAX_NOTE = 2000
MAX_NOTES = 100


class QueueCluster(QueueClient):
    """The queue client with the methods that only the command line needs."""

    def find_problem(self) -> str | None:
        """Return why the cluster as a whole does not work; None if it does."""
        return None if (silence := self.find_silence()) is None else f"{silence.text} at {self.address}"

    def list_jobs(self, state: JobState | None, limit: int) -> tuple[list[JobRecord], int | None]:
        """Return the newest jobs that have a record."""
        records = [record for record in self.jobs() if state in {None, record.state}]
        return records[:limit], max(0, len(records) - limit)

    def figures(self, job: str) -> dict[str, Any] | None:  # noqa: ARG002 - as in HttpCluster
        """Return None: figure data is in the artifact store, which a client may not be able to reach."""
        return None

    def prepare(self, source: Source, options: SubmitOptions) -> Submission:
        """Read and check the table, and build the documents of its jobs."""
        large = open_directory(source, options.sample)
        if large is not None:
            return self._prepare_directory(source, options, large)
        with progress_display(quiet=options.quiet):
            table, settings = source.prepare()
        # The schedulers would reject it too, but only after it was sent.
        check_classes(table.columns.classes, source.mining)
        features = table.columns.count + source.mining.probes
        SearchPlan.settle(source.mining, features, table.columns.column_names)
        document = {
            "id": uuid4().hex,
            "dataset": {
                "fingerprint": table.columns.fingerprint,
                "name": options.name or source.name[:MAX_NAME],
                "settings": settings,
                "notes": tuple(note[:MAX_NOTE] for note in table.notes[:MAX_NOTES]),
            },
            "settings": source.mining,
            "priority": options.priority,
            "tenant": options.tenant or "default",
        }
        spec = JobSpec.parse(document)
        repeats = _repeats(source, spec, table.columns)
        ids = tuple(each.id for each in (spec, *repeats))
        return Submission(ids, lambda: table.columns, lambda: self._submit(spec, repeats, table.columns))

    def _prepare_directory(self, source: Source, options: SubmitOptions, large: LargeTable) -> Submission:
        """Build the document of a job on a directory, of which the workers draw a sample."""
        from maabo_dist.cluster.table_directory import path_in  # noqa: PLC0415 - pyarrow takes half a second to import
        from maabo_dist.mining.dataset import choose_target  # noqa: PLC0415

        cluster, data = self.cluster(), source.data or ""
        tables = self._settings.tables_url or ("" if cluster is None else cluster.tables)
        path = path_in(tables, data) if tables else None
        if path is None:
            where = f"({tables})" if tables else "(MAABO_TABLES, which is not set)"
            raise SettingsError(
                f"{data} is not in the table directory of the cluster {where}, from which all workers read. Copy or "
                "mount it there, or use maabo mine."
            )
        settings, _ = choose_target(large.dataset, TableSettings.parse(source.table))
        document = {
            "id": uuid4().hex,
            "dataset": {
                "fingerprint": fingerprint_of_files(large.dataset.fingerprint, settings, large.sample),
                "name": options.name or source.name[:MAX_NAME],
                "settings": settings,
                "many": {
                    "path": path,
                    "sample": large.sample,
                    "rows": large.dataset.rows,
                    "columns": len(large.dataset.names),
                },
            },
            "settings": source.mining,
            "priority": options.priority,
            "tenant": options.tenant or "default",
        }
        spec = JobSpec.parse(document)

        def send() -> list[JobRecord]:
            record = self.submit(spec, None)
            raise_for_failure(record)
            return [record]

        return Submission((spec.id,), _no_columns, send, tuple(explain_large(large)))

    def _submit(self, spec: JobSpec, repeats: list[JobSpec], columns: "Columns") -> list[JobRecord]:
        """Submit a job and its repeats; the table is sent with the first."""
        record = self.submit(spec, columns)
        raise_for_failure(record)
        return [record, *(self.submit(each, None) for each in repeats)]


def _no_columns() -> "Columns":
    raise SettingsError("The columns of a directory are prepared by the workers.")


def _repeats(source: Source, spec: JobSpec, columns: "Columns") -> list[JobSpec]:
    """Return a job for each repeat."""
    repeats = repeat_settings_of(source, columns)
    return [
        spec.model_copy(
            update={"id": uuid4().hex, "settings": settings, "dataset": _rename(spec, format_repeat(run, len(repeats)))}
        )
        for run, settings in enumerate(repeats, 1)
    ]


def _rename(spec: JobSpec, repeat: str) -> DatasetRef:
    """Add the number of the repeat to the dataset's name, so that lists of jobs tell repeats apart."""
    suffix = f" ({repeat})"
    return spec.dataset.model_copy(update={"name": spec.dataset.name[: MAX_NAME - len(suffix)] + suffix})
