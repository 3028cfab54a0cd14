"""The cases of an experiment as jobs of a cluster, some at a time."""

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from maabo_dist.cli.cluster_port import Wishes
from maabo_dist.cli.place import Place
from maabo_dist.cli.remote import check_not_failed, connect, left_running
from maabo_dist.cli.source import Source
from maabo_dist.contract.job import Priority
from maabo_dist.research.paper import Case, Outcome, PaperTable, Result, outcome_of, prepared_for
from maabo_dist.settings import RepeatSettings, TableSettings

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from maabo_dist.cli.cluster_port import Cluster
    from maabo_dist.data import PreparedTable

AT_ONCE = 16
"""Jobs that are under way beside each other: enough to keep workers busy, and few to leave behind at a Ctrl-C."""


@dataclass(frozen=True, slots=True)
class CaseSource(Source):
    """A table in memory, as a source of a job."""

    own: PaperTable
    title: str

    @property
    def name(self) -> str:
        """The same for all cases on the table, as a server keeps it but once."""
        return self.title

    def raw(self) -> "tuple[Path | pd.DataFrame, TableSettings]":
        """The table, with its noise."""
        return self.own.frame, self.own.settings

    def prepared(self) -> "tuple[PreparedTable, TableSettings]":
        """The table, ready to be mined."""
        from maabo_dist.data import prepare

        return prepare(self.own.frame, self.own.settings), self.own.settings

    @classmethod
    def of(cls, case: Case, tables: Mapping[str, PaperTable]) -> "CaseSource":
        """What a case mines."""
        key = case.table
        noise = f" + {key.noise} noise, seed {key.seed}" if key.noise else ""
        table = prepared_for(tables, key)
        return cls(None, None, {}, case.settings, RepeatSettings(), table, f"{key.name}{noise}")


def run_jobs(
    cases: Sequence[Case],
    tables: Mapping[str, PaperTable],
    place: Place,
    watch: Callable[[int], object],
    say: Callable[[str], None],
) -> list[Result]:
    """The outcomes of all cases, each a job of the cluster, in the order of the cases."""
    cluster = connect(place, say)
    found: list[Outcome] = []
    waiting: deque[str] = deque()
    for case in cases:
        if len(waiting) == AT_ONCE:
            found.append(_ended(cluster, waiting))
            watch(len(found))
        with left_running(*waiting):
            waiting.append(_sent(cluster, CaseSource.of(case, tables)))
    while waiting:
        found.append(_ended(cluster, waiting))
        watch(len(found))
    return list(zip(cases, found, strict=True))


def _sent(cluster: "Cluster", source: CaseSource) -> str:
    wishes = Wishes(source.name, Priority.NORMAL.value, None, fresh=False, quiet=True)
    (record,) = cluster.order(source, wishes).send()
    return record.id


def _ended(cluster: "Cluster", waiting: deque[str]) -> Outcome:
    """What the oldest job came to; it leaves the queue."""
    with left_running(*waiting):
        for _ in cluster.follow(waiting[0]):
            pass
        check_not_failed(cluster.record(waiting[0]))
        return outcome_of(json.loads(cluster.final_document(waiting.popleft())))
