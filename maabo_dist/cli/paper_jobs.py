"""Run the cases of an experiment as jobs of a cluster, several at a time."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from maabo_dist.cli.cluster import Cluster, ClusterAddress, SubmitOptions, connect, leave_running, raise_for_failure
from maabo_dist.cli.options import Source
from maabo_dist.research.paper.cases import Case, Outcome, Result, case_table
from maabo_dist.research.paper.tables import PaperTable
from maabo_dist.settings import RepeatSettings, TableSettings

MAX_JOBS = 16  # jobs that run at the same time: enough to keep workers busy, and few to leave behind after Ctrl-C


@dataclass(frozen=True, slots=True)
class CaseSource(Source):
    """A table in memory as the source of a job."""

    paper_table: PaperTable

    def read(self) -> tuple[Path | pd.DataFrame, TableSettings]:
        """Return the table with its noise columns."""
        return self.paper_table.frame, self.paper_table.settings

    @classmethod
    def from_case(cls, case: Case, tables: Mapping[str, PaperTable]) -> "CaseSource":
        """Return the table of a case. All cases on it have the same name, so that a server stores it once."""
        key = case.table
        name = f"{key.name} + {key.noise} noise, seed {key.seed}" if key.noise else key.name
        return cls(None, name, {}, case.settings, RepeatSettings(), case_table(tables, key))


def run_jobs(
    cases: Sequence[Case],
    tables: Mapping[str, PaperTable],
    address: ClusterAddress,
    report_progress: Callable[[int], object],
    print_note: Callable[[str], None],
) -> list[Result]:
    """Run each case as a job of the cluster and return the cases with their outcomes, in order."""
    cluster = connect(address, print_note)
    outcomes: list[Outcome] = []
    running: deque[str] = deque()
    for case in cases:
        if len(running) == MAX_JOBS:
            outcomes.append(_wait_for_oldest(cluster, running))
            report_progress(len(outcomes))
        source = CaseSource.from_case(case, tables)
        with leave_running(*running):
            (record,) = cluster.prepare(source, SubmitOptions(name=source.name, quiet=True)).send()
            running.append(record.id)
    while running:
        outcomes.append(_wait_for_oldest(cluster, running))
        report_progress(len(outcomes))
    return list(zip(cases, outcomes, strict=True))


def _wait_for_oldest(cluster: Cluster, running: deque[str]) -> Outcome:
    """Return the outcome of the oldest job and remove it from the queue."""
    with leave_running(*running):
        for _ in cluster.follow(running[0]):
            pass
        raise_for_failure(cluster.record(running[0]))
        return Outcome.from_document(cluster.final_document(running.popleft()))
