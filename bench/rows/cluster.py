"""`python -m bench.rows.cluster`: mine the generated tables on a cluster of this machine, and compare with one process.

The CPU seconds of the workers in each phase say what machines share: passes over all rows, and the search of the
sample.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, sleep
from uuid import uuid4

from bench.cluster.local_cluster import LocalCluster, children, cpu_seconds, proportional_bytes, start_cluster
from bench.printing import Goal, console, format_time, format_verdict, print_table
from bench.rows.tables import write_table
from maabo_dist.contract.job import fingerprint_of_files
from maabo_dist.contract.result import ResultDocument
from maabo_dist.data.datasets import Dataset
from maabo_dist.settings import TableSettings
from tests.cluster import ask

MAX_MEGABYTES = 1536
SAMPLE = 200_000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.rows.cluster", description=__doc__)
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6, 3e6, 1e7])
    parser.add_argument("--trees", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--scratch", metavar="DIR", help="where to write the tables (default: a temporary directory)")
    options = parser.parse_args()
    results = []
    for rows in map(int, options.rows):
        with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
            write_table(Path(folder, "table"), rows, 0)
            results.append(_compare(Path(folder), rows, options))
    _print(results)


def _compare(folder: Path, rows: int, options: argparse.Namespace) -> dict:
    with start_cluster(tables_url=f"file://{folder}") as cluster:
        worker = cluster.start_worker("-c", str(options.processes), "--without-mingle", "--without-gossip")
        cluster.start_scheduler()
        measured = _run(cluster, worker, Dataset.open(folder / "table"), options)
    command = [sys.executable, "-m", "maabo_dist", "mine", str(folder / "table"), "--target", "y", "--json", "--quiet"]
    mined = subprocess.run([*command, "--jobs", "1", "--trees", str(options.trees)], stdout=subprocess.PIPE, check=True)
    return {"rows": rows, "same": ResultDocument.parse_text(mined.stdout).digest == measured["digest"]} | measured


def _run(cluster: LocalCluster, worker: int, dataset: Dataset, options: argparse.Namespace) -> dict:
    job, settings = uuid4().hex, TableSettings(target="y")
    many = {"path": "table", "sample": SAMPLE, "rows": dataset.rows, "columns": len(dataset.names)}
    fingerprint = fingerprint_of_files(dataset.fingerprint, settings, SAMPLE)
    reference = {"fingerprint": fingerprint, "settings": {"target": "y"}, "many": many}
    start = perf_counter()
    document = {"id": job, "dataset": reference, "settings": {"trees": options.trees}}
    ask(cluster.settings, "submit", job, document=document)
    cpu: dict[str, float] = {}
    largest, before = 0, cpu_seconds(worker)
    while not ((row := cluster.job(job)) is not None and row.state.ended):
        phase = _phase(cluster, job)
        sleep(0.1)
        now = cpu_seconds(worker)
        cpu[phase] = cpu.get(phase, 0.0) + now - before
        before = now
        largest = max(largest, *(_bytes(process) for process in (cluster.scheduler, worker, *children(worker))))
    if row.reason is not None or row.digest is None:
        raise SystemExit(f"the job ended as {row.state.value}: {row.reason}")
    wall = perf_counter() - start
    return {"wall": wall, "cpu": cpu, "megabytes": largest / 2**20, "digest": row.digest}


def _phase(cluster: LocalCluster, job: str) -> str:
    passes = cluster.ledger.passes.rows(job)
    running = next((each for each in passes if each.results is None), None)
    return "search" if running is None else running.plan.kind


def _bytes(process: int) -> int:
    try:
        return proportional_bytes(process)
    except OSError:  # it has ended
        return 0


def _print(results: list[dict]) -> None:
    rows = []
    for each in results:
        cpu = each["cpu"]
        rows.append(
            (
                f"{each['rows']:,} rows",
                format_time(each["wall"]),
                *(format_time(cpu.get(phase, 0.0)) for phase in ("plan", "draw", "search", "count")),
                f"{each['megabytes']:,.0f} MB",
                *format_verdict(each["megabytes"], Goal(maximum=MAX_MEGABYTES)),
                "yes" if each["same"] else "NO",
            )
        )
    head = ["on a cluster", "wall", "plan", "draw", "search", "count", "largest process", "goal", "", "same digest"]
    print_table("CPU seconds of the workers in each phase", head, rows)
    console.print(json.dumps(results), style="dim", soft_wrap=True)


if __name__ == "__main__":
    main()
