"""A cluster over its HTTP server: tables go there as they are, and are prepared there."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

from maabo_dist.cli.cluster_port import Listing, Wishes
from maabo_dist.cli.progress import shown_progress
from maabo_dist.cli.repeats import repeats_of
from maabo_dist.cli.source import Source
from maabo_dist.client import Client, ProblemError, ServerUnreachableError
from maabo_dist.client.uploads import MAX_NAME_LENGTH
from maabo_dist.contract.ids import DIGITS, match_one, parse_prefix, short_id
from maabo_dist.contract.job import JobState
from maabo_dist.contract.record import PAST_TENSE, JobCommand, JobRecord, is_applied
from maabo_dist.errors import InputError, MaaboError, SettingsError

if TYPE_CHECKING:
    from maabo_dist.client import Dataset
    from maabo_dist.data.preparation import PreparedTable
    from maabo_dist.settings import MiningSettings

EFFECT_SECONDS = 20.0
"""Wishes are heard every few seconds."""
LOOK_PAUSE = 0.2
NOT_FOUND = 404
CONFLICT = 409
"""How a server says that there are no rules, or none yet."""


class HttpCluster:
    """A cluster, seen through a server of it. `tenant` is that of the token."""

    def __init__(self, client: Client, tenant: str, say: Callable[[str], None]) -> None:
        self.client, self.tenant, self.say = client, tenant, say

    @classmethod
    def connected(cls, client: Client, say: Callable[[str], None]) -> Self:
        """A server that has answered and knows the token: mistakes are met before a table is read."""
        return cls(client, client.quota().tenant, say)

    @property
    def address(self) -> str:
        """Of the server."""
        return self.client.url

    def idle(self) -> bool:
        """Whether no scheduler is running; where a gateway shows only the calls themselves, nobody can tell."""
        try:
            return self.client.ready().get("scheduler", "ok") != "ok"
        except ServerUnreachableError:
            return False

    def record(self, job: str) -> JobRecord:
        """Where a job stands."""
        return self.named(self.client.job(job).known)

    def find(self, prefix: str) -> JobRecord:
        """The job of this id, or the only one whose id begins so, for which all are looked through."""
        digits = parse_prefix(prefix)
        if len(digits) == DIGITS:
            return self.record(digits)
        return self.record(
            match_one(digits, sorted({job.id for job in self.client.jobs() if job.id.startswith(digits)}))
        )

    def listing(self, state: JobState | None, most: int) -> Listing:
        """Jobs, the newest first; more than are shown are not counted, as that would take a call for each 200."""
        wanted = None if state is None else state.value
        found = [self.named(job.known) for job in islice(self.client.jobs(state=wanted), most + 1)]
        return Listing(found[:most], None if len(found) > most else 0)

    def follow(self, job: str) -> Iterator[JobRecord]:
        """The record now, and whenever an event tells of another."""
        record = self.record(job)
        yield record
        if record.state.ended:
            return
        for event in self.client.job(job).events():
            status = event.status
            if status is not None and self.named(status) != record:
                record = self.named(status)
                yield record
        yield self.record(job)

    def ask(self, job: str, wish: JobCommand) -> JobRecord:
        """Ask, and look until it shows."""
        found = self.client.job(job)
        if found.state.ended:
            raise InputError(f"Job {short_id(job)} is {found.state.value}; it cannot be {PAST_TENSE[wish]}.")
        status = {"pause": found.pause, "resume": found.resume, "cancel": found.cancel}[wish]()
        end = time.monotonic() + EFFECT_SECONDS
        while not is_applied(status, wish):
            if time.monotonic() > end:
                silence = "No scheduler is running." if self.idle() else "The schedulers have not answered."
                raise MaaboError(f"{silence} Job {short_id(job)} is not {PAST_TENSE[wish]} yet; the request is noted.")
            time.sleep(LOOK_PAUSE)
            status = found.status()
        return self.named(status)

    def document(self, job: str) -> str | None:
        """The rules; None before there are any."""
        try:
            return self.final_document(job)
        except ProblemError as error:
            if error.status == CONFLICT:
                return None
            raise

    def final_document(self, job: str) -> str:
        """The rules of a job that is done."""
        document = self.client.job(job).document()
        document.pop("partial", None)  # `search.stopped` says so too, as in every document
        return json.dumps(document)

    def exhibits(self, job: str) -> dict[str, Any] | None:
        """As the server has them, if it does."""
        try:
            return self.client.job(job).exhibits()
        except ProblemError as error:
            if error.status in {NOT_FOUND, CONFLICT}:
                return None
            raise

    def order(self, source: Source, wishes: Wishes) -> "HttpOrder":
        """A job; the table is read here only where repeats have to be drawn from it."""
        if wishes.tenant not in {None, self.tenant}:
            raise SettingsError(
                f"--tenant {wishes.tenant}: the token is of the tenant {self.tenant}, and so are its jobs. "
                "Leave --tenant out, or use another token."
            )
        if wishes.name and len(wishes.name) > MAX_NAME_LENGTH:
            raise SettingsError(f"--name has {len(wishes.name)} characters; at most {MAX_NAME_LENGTH} are taken.")
        order = HttpOrder(self, source, wishes)
        return HttpOrder(self, source, wishes, order.repeats()) if source.repeating.repeats else order

    def named(self, status: JobRecord) -> JobRecord:
        """As a record. Servers tell a tenant of its own jobs only, and so do not name it."""
        told = {name: getattr(status, name) for name in JobRecord.model_fields}
        return JobRecord(**told | {"tenant": self.tenant})


@dataclass(frozen=True, slots=True)
class HttpOrder:
    """Jobs over HTTP."""

    cluster: HttpCluster
    source: Source
    wishes: Wishes
    drawn: "tuple[MiningSettings, ...]" = ()
    """Settings of the repeats."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The server makes them."""
        return ()

    def features(self) -> int:
        """Of the table, which is read for this."""
        return self._prepared().columns.count

    def repeats(self) -> "tuple[MiningSettings, ...]":
        """The settings of the repeats that were asked for."""
        return repeats_of(self.source, self._prepared().columns)

    def send(self) -> list[JobRecord]:
        """Upload the table, which stays the same dataset if the server has it, and ask for the jobs."""
        table, settings = self.source.raw()
        dataset = self.cluster.client.upload(table, self.wishes.name or self.source.name)
        if self.wishes.name and " ".join(self.wishes.name.split()) != dataset.name:
            self.cluster.say(f"the server has this very table as {dataset.name!r}, and goes on calling it so")
        given = settings.model_dump(exclude_unset=True)
        options = {"priority": self.wishes.priority, "fresh": self.wishes.fresh}
        return [
            self._sent(dataset, given | mining.model_dump(exclude_unset=True), options)
            for mining in (self.source.mining, *self.drawn)
        ]

    def _sent(self, dataset: "Dataset", settings: dict[str, Any], options: dict[str, Any]) -> JobRecord:
        job = self.cluster.client.submit(dataset, **settings, **options)
        if not job.created:
            self.cluster.say(f"job {short_id(job.id)} mines the same, and is used; --fresh mines anew")
        return self.cluster.named(job.known)

    def _prepared(self) -> "PreparedTable":
        with shown_progress(quiet=self.wishes.quiet):
            table, _ = self.source.prepared()
        return table
