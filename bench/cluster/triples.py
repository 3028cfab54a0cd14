"""All triples of a wide table on a cluster: throughput relative to the kernels alone, and the digest after kills."""

import os
import signal
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, process_time, sleep

from bench import printing, tables
from bench.cluster import recovery
from bench.cluster.local_cluster import LocalCluster, children, cpu_seconds, start_cluster
from maabo_dist.mining.local import mine
from maabo_dist.screens.blocks import SIXTHS, THIRDS, count_sets, count_triples, has_triples
from maabo_dist.screens.pairs import BitTable
from maabo_dist.screens.screen import MAX_TRIPLES
from maabo_dist.screens.triples import TripleTable, screen_triple_block
from maabo_dist.settings import MiningSettings
from maabo_dist.study import Study
from tests import cluster, servers

FEATURES, ROWS = 2000, 1400
QUICK_FEATURES = 600
MINING = {"preset": "auto", "complete": "triples", "trees": 300, "seed": 1}
MAX_SECONDS = 1800.0
# The parts of the screen after which something is killed, and what.
KILLS = ((0.1, "worker process"), (0.3, "scheduler"), (0.5, "worker"), (0.7, "scheduler"), (0.85, "worker process"))


@dataclass(frozen=True)
class Moment:
    """The sets that are screened, and the CPU time of the scheduler and of the worker until then."""

    sets: int
    time: float
    scheduler: float
    worker: float


def run(options) -> None:
    columns = tables.generated(ROWS, QUICK_FEATURES if options.quick else FEATURES)
    printing.print_table(
        f"All triples, {ROWS:,} × {columns.count:,}",
        ["worker processes", "kernels alone", "cluster", "CPU alone", "scheduler", "workers", "ratio", "goal", ""],
        [_throughput(columns, processes) for processes in (1, 2)],
        [
            "Kernels alone: as many processes, each with screen_triple_block over its share of the same blocks.",
            "CPU: of a triple. Its ratio does not depend on what else the machine does, unlike that of the rates.",
        ],
    )
    _survive(columns)


def _throughput(columns, processes: int) -> tuple[str, ...]:
    with start_cluster() as here:
        here.start_scheduler()
        worker = here.start_worker("-c", str(processes))
        job = here.submit(columns, **MINING)
        blocks, moments = _watch(here, worker, job, columns.count)
    triples = moments[-1].sets - moments[0].sets
    scheduler, workers = (
        (getattr(moments[-1], name) - getattr(moments[0], name)) / triples for name in ("scheduler", "worker")
    )
    alone_rate, alone = _alone(columns, blocks, processes)
    efficiency = alone / (scheduler + workers)
    return (
        f"{processes}",
        f"{alone_rate / 1e6:,.0f} million/s",
        f"{triples / (moments[-1].time - moments[0].time) / 1e6:,.0f} million/s",
        *map(printing.format_time, (alone, scheduler, workers)),
        f"{efficiency:.2f}",
        *printing.format_verdict(efficiency, printing.Goal(minimum=0.9)),
    )


def _watch(here: LocalCluster, worker: int, job: str, features: int) -> tuple[list[tuple[int, int]], list[Moment]]:
    """Return the blocks of triples, and the moments at which one was answered once all pairs were."""
    blocks: list[tuple[int, int]] = []
    moments: list[Moment] = []
    end = monotonic() + MAX_SECONDS
    while monotonic() < end and here.ledger.screens.screen(job) is None:
        rows = here.ledger.screens.blocks(job)
        blocks = blocks or [
            (row.start - features, row.stop - features) for row in rows if has_triples(row.start, features)
        ]
        sets = _screened(rows, features)
        pairs_done = all(row.pairs is not None for row in rows if not has_triples(row.start, features))
        if rows and pairs_done and (not moments or sets > moments[-1].sets):
            moments.append(Moment(sets, monotonic(), cpu_seconds(here.scheduler), cpu_seconds(worker)))
        sleep(0.01)
    return blocks, moments[1:]  # the first was seen later than it was


def _screened(rows, features: int) -> int:
    return sum(count_sets(row.start, row.stop, features) for row in rows if row.pairs is not None)


def _alone(columns, blocks: list[tuple[int, int]], processes: int) -> tuple[float, float]:
    """Triples per second, and CPU seconds of a triple, in this many processes without a cluster."""
    start = monotonic()
    with get_context("fork").Pool(processes) as pool:
        shares = [(columns, blocks[number::processes]) for number in range(processes)]
        spent = pool.starmap(_screen, shares, chunksize=1)
    triples = sum(count_triples(*block, columns.count) for block in blocks)
    return triples / (monotonic() - start), sum(spent) / triples


def _screen(columns, blocks: list[tuple[int, int]]) -> float:
    study = Study.build(columns, MiningSettings.parse(MINING))
    cuts = (THIRDS, SIXTHS) if study.plan.screens.sixths else (THIRDS,)
    laid_out = [TripleTable.build(BitTable.build(study.columns, study.split, cut)) for cut in cuts]
    screen_triple_block(laid_out[0], *blocks[-1], MAX_TRIPLES)
    start = process_time()
    for first, stop in blocks:
        for table in laid_out:
            screen_triple_block(table, first, stop, MAX_TRIPLES)
    return process_time() - start


def _survive(columns) -> None:
    """Kill workers and schedulers during the screen; compare the digest with that of one process."""
    settings = MiningSettings.parse(MINING)
    rows = []
    with TemporaryDirectory(prefix="maabo-bench-") as name, ExitStack() as stack:
        directory = Path(name)
        here = recovery.Cluster(directory, f"sqlite:///{directory}/ledger.db")
        stack.callback(here.close)
        here.scheduler, here.worker = here.start("scheduler"), here.start("worker")
        start = monotonic()
        here.job = cluster.submit(here.settings, directory, columns, **MINING)
        for share, victim in KILLS:
            part = servers.wait_for(lambda share=share: _part(here, columns.count, share), MAX_SECONDS, what="blocks")
            _kill(here, victim)
            rows.append((f"{part:.0%} screened", f"{victim} killed"))
        servers.wait_for(lambda: here.ledger.jobs.get(here.job).state.ended, MAX_SECONDS, what="the end")
        row = here.ledger.jobs.get(here.job)
        taken = monotonic() - start
    digest = mine(columns, settings, jobs=2).digest
    verdict = "the same digest" if row.digest == digest else f"ANOTHER DIGEST: {digest}"
    rows.append((f"{row.state.value} in {taken:.0f} s", f"{row.digest[:16]}; in one process, {verdict}"))
    printing.print_table("All triples with workers and schedulers killed", ["", ""], rows, [])


def _part(here, features: int, least: float) -> float | None:
    """The part of all pairs and triples that is screened, if it is at least this; fail if the screen is over."""
    rows = here.ledger.screens.blocks(here.job)
    if here.ledger.screens.screen(here.job) is not None:
        raise RuntimeError("The screen was over before everything was killed.")
    part = _screened(rows, features) / max(1, sum(count_sets(row.start, row.stop, features) for row in rows))
    return part if part >= least else None


def _kill(here, victim: str) -> None:
    if victim == "worker process":
        os.kill(children(here.worker.pid)[0], signal.SIGKILL)
    elif victim == "worker":
        here.worker.end()
        here.worker = here.start("worker")
    else:
        here.scheduler.end()
        here.scheduler = here.start("scheduler")
