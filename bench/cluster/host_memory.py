"""The memory of one host with four worker processes on one large table."""

from pathlib import Path

import numpy as np

from bench import printing
from bench.cluster.local_cluster import children, proportional_bytes, start_cluster
from maabo_dist.data.columns import Columns, Feature, FeatureKind

PROCESSES = 4


def run(options) -> None:
    features = 300 if options.quick else 3000
    columns = _columns(100_000, features)
    with start_cluster() as cluster:
        cluster.start_scheduler()
        worker = cluster.start_worker("-c", str(PROCESSES))
        before = _bytes(worker)
        job = cluster.submit(columns, strategy="random", trees=20_000, batch=500, in_flight=8, subset_size=3)
        del columns
        cluster.wait_for_trees(job, 16 * features // 3)  # every process has used every column by then
        after = _bytes(worker)
        (mapped,) = Path(cluster.settings.cache_dir).glob("*.training")
        size = mapped.stat().st_size
    copies = (after - before) / size
    printing.print_table(
        f"Memory of a host: {PROCESSES} worker processes on one table of {size / 1e9:.2f} GB as the kernels use it",
        ["", "figure", "goal", ""],
        [
            ("before the job", f"{before / 1e6:,.0f} MB", "", ""),
            ("with the table", f"{after / 1e6:,.0f} MB", "", ""),
            ("copies of the table", f"{copies:.2f}", *printing.format_verdict(copies, printing.Goal(maximum=1.3))),
        ],
        ["Proportional set size: memory that processes share is counted once."],
    )


def _bytes(worker: int) -> int:
    return sum(proportional_bytes(process) for process in [worker, *children(worker)])


def _columns(rows: int, features: int) -> Columns:
    random, levels = np.random.default_rng(0), 4096
    codes = random.integers(0, levels, (features, rows), dtype=np.uint16)
    labels = ((codes[0] > levels // 2) ^ (random.random(rows) < 0.2)).astype(np.int32)
    return Columns(
        codes=codes,
        values=np.tile(np.linspace(0, 1, levels), features),
        offsets=np.arange(features + 1, dtype=np.int64) * levels,
        labels=labels,
        features=tuple(Feature(f"x{number}", f"x{number}", FeatureKind.NUMBER) for number in range(features)),
        classes=("no", "yes"),
        target="y",
    )
