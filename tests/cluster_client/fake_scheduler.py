"""A fake scheduler: it reads requests and publishes records. Tests decide what happens to a job."""

import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from maabo_dist.cluster.redis_store import open_store
from maabo_dist.cluster.streams import HEADER
from maabo_dist.contract import names
from maabo_dist.contract.job import ClusterRecord, JobRecord, JobSpec, JobState
from maabo_dist.contract.messages import Request
from maabo_dist.data.columns import Columns
from maabo_dist.errors import MaaboError
from maabo_dist.mining.local import mine
from maabo_dist.report.coverage import with_coverage
from maabo_dist.report.document import result_document

_STATES = {"pause": JobState.PAUSED, "resume": JobState.RUNNING, "cancel": JobState.CANCELLED}


class FakeScheduler:
    def __init__(self, settings, client, *, store="redis://", host="elsewhere", mines=False):
        self.settings, self.redis, self.mines = settings, client, mines
        self.cluster = ClusterRecord(version="0", store=store, host=host)
        self.records, self.documents, self.specs, self.requests = {}, {}, {}, []
        self.began = time.time()
        self.to_drop = 0
        """The number of requests to drop."""

    def turn(self):
        self.redis.set(self.settings.key(names.CLUSTER), self.cluster.model_dump_json())
        stream = self.settings.key(names.INTAKE_STREAM)
        for entry, fields in self.redis.xrange(stream):
            self.redis.xdel(stream, entry)
            if self.to_drop:
                self.to_drop -= 1
                continue
            request = Request.read(fields[HEADER])
            self.requests.append(request.kind)
            self._handle(request)

    def add(self, job, state=JobState.QUEUED, **values):
        self.change(JobRecord(id=job, state=state, created=self.began + len(self.records) / 1000, **values))

    def change(self, record, document=None, **values):
        record = record.model_copy(update=values)
        self.records[record.id] = record
        if document is not None:
            self.documents[record.id] = document
        self._publish(record.id)

    def forget_redis(self):
        self.redis.flushall()

    def _handle(self, request):
        if request.kind == "submit":
            self._submit(request)
        elif request.job not in self.records:
            return
        elif request.kind == "look":
            self._publish(request.job)
        elif not self.records[request.job].state.ended:
            self.change(self.records[request.job], state=_STATES[request.kind])

    def _submit(self, request):
        if request.job in self.records:
            return
        try:
            spec = self.specs[request.job] = JobSpec.parse(request.document)
        except MaaboError as error:
            self.add(request.job, JobState.FAILED, reason=str(error))
            return
        self.add(spec.id, name=spec.dataset.name, priority=spec.priority, tenant=spec.tenant)
        if self.mines:
            try:
                self.mine(spec)
            except MaaboError as error:
                self.change(self.records[spec.id], state=JobState.FAILED, reason=str(error))

    def mine(self, spec):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "table"
            settings = self.settings.model_copy(update={"store_url": self.cluster.store})
            open_store(settings, self.redis).get(f"columns/{spec.dataset.fingerprint}", path)
            columns = Columns.load(path)
            result = mine(columns, spec.settings)
        dataset = {"name": spec.dataset.name, "settings": spec.dataset.settings.model_dump(mode="json")}
        document = with_coverage(result_document(result, dataset), columns)
        document = document.model_copy(update={"notes": (*spec.dataset.notes, *document.notes)})
        self.change(
            self.records[spec.id],
            document.to_text(),
            state=JobState.DONE,
            trees=result.search.trees,
            planned=result.plan.trees,
            best_score=result.search.best_score,
            seconds=result.search.seconds,
            rules=len(result.rules),
            digest=result.digest,
        )

    def _publish(self, job):
        record = self.records[job]
        if job in self.documents:
            self.redis.set(self.settings.key(f"{names.JOB_DOCUMENT}:{job}"), self.documents[job])
        self.redis.zadd(self.settings.key(names.JOB_LIST), {job: record.created})
        self.redis.set(self.settings.key(f"{names.JOB_RECORD}:{job}"), record.model_dump_json())


@contextmanager
def running(scheduler):
    """Run the scheduler in a thread."""
    stop = threading.Event()

    def run():
        while not stop.wait(0.02):
            scheduler.turn()

    scheduler.turn()
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield scheduler
    finally:
        stop.set()
        thread.join(20)
