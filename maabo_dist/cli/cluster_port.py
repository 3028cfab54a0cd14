"""What the commands need of a cluster, be it reached over its Redis or over its HTTP server."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from maabo_dist.cli.source import Source
from maabo_dist.contract.job import JobState
from maabo_dist.contract.record import JobCommand, JobRecord


@dataclass(frozen=True, slots=True)
class Listing:
    """The newest jobs."""

    records: list[JobRecord]
    more: int | None = 0
    """How many there are beside; None for some that were not counted."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is asked for beside the mining itself."""

    name: str | None
    priority: str
    tenant: str | None
    fresh: bool
    quiet: bool

    @classmethod
    def given(cls, values: dict[str, Any]) -> "Wishes":
        """From a command's values."""
        return cls(values["name"], values["priority"], values["tenant"], values["fresh"], values["quiet"])


class Order(Protocol):
    """A job and its repeats, ready to be sent; mistakes that can be met here have been."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Of the jobs that may be there if sending is cut short; empty if only the cluster knows."""

    def features(self) -> int:
        """Of the table."""

    def send(self) -> list[JobRecord]:
        """Ask for the jobs: that of the table itself first."""


class Cluster(Protocol):
    """A cluster as the commands see it."""

    @property
    def address(self) -> str:
        """For people."""

    def idle(self) -> bool:
        """Whether nobody is there who would work on jobs."""

    def find(self, prefix: str) -> JobRecord:
        """The job of this id, or the only one whose id begins so."""

    def record(self, job: str) -> JobRecord:
        """Where a job stands."""

    def listing(self, state: JobState | None, most: int) -> Listing:
        """Jobs, the newest first."""

    def follow(self, job: str) -> Iterator[JobRecord]:
        """The record now, whenever it changes, and when the job has ended."""

    def ask(self, job: str, wish: JobCommand) -> JobRecord:
        """Ask for a change; the record once it shows, or once the job has ended in another way."""

    def document(self, job: str) -> str | None:
        """The rules as the JSON of `maabo mine`, final or so far; None before anyone has looked."""

    def final_document(self, job: str) -> str:
        """The rules of a job that is done."""

    def exhibits(self, job: str) -> dict[str, Any] | None:
        """What the pictures of a job's report are drawn from; None where only its document can be had."""

    def order(self, source: Source, wishes: Wishes) -> Order:
        """A job, ready to be sent."""
