"""A table of 100,000 columns × 1,000 rows in a Parquet file, mined on two threads: time and peak memory.

Two of the columns decide the class, as an XOR that no single column shows.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import TypeVar

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from bench import printing
from bench.timing import peak_megabytes, resident_megabytes, run_python

T = TypeVar("T")

ROWS, THREADS = 1000, 2
NOTES = (
    "Prepare: read the file in blocks of columns. All pairs: the screen alone. Mine: the screen again, 10,000 trees",
    "and the rules. Memory includes the interpreter and libraries.",
)


def run(options) -> None:
    features = 20_000 if options.quick else 100_000
    with TemporaryDirectory(prefix="maabo-bench-") as folder:
        path = Path(folder, "wide.parquet")
        write_table(path, features)
        taken = json.loads(run_python("-m", "bench.wide", str(path)))
    rows = [
        (name, printing.format_time(seconds), printing.format_time(cpu), f"{peak:,.0f} MB", "", "")
        for name, seconds, cpu, peak in taken["steps"]
    ]
    peak, before = taken["steps"][-1][-1], taken["before"]
    rows[-1] = (*rows[-1][:-2], *printing.format_verdict(peak / 1000, printing.Goal(maximum=4)))
    rows.append(("  a cell", "", "", f"{(peak - before) * 2**20 / (features * ROWS):.1f} B", "", ""))
    rows.append((f"  columns in rules: {', '.join(taken['rules'])}", *[""] * 5))
    title = f"9. {features:,} columns × {ROWS:,} rows, {THREADS} threads"
    printing.print_table(title, ["", "time", "CPU time", "peak so far", "goal, GB", ""], rows, NOTES)


def write_table(path: Path, features: int) -> None:
    random = np.random.default_rng(5)
    columns = {f"x{number}": pa.array(random.normal(size=ROWS)) for number in range(features)}
    one, other = (columns[f"x{number}"].to_numpy() for number in (features // 3, features // 2))
    wrong = random.random(ROWS) < 0.1
    columns["y"] = pa.array(np.where(((one > 0) ^ (other > 0)) ^ wrong, "yes", "no"))
    parquet.write_table(pa.table(columns), path, compression="none", use_dictionary=["y"], write_statistics=False)


def _measure(path: Path) -> dict[str, object]:
    from concurrent.futures import ThreadPoolExecutor

    from bench import tables
    from maabo_dist.data.column_sources import open_columns
    from maabo_dist.data.preparation import prepare
    from maabo_dist.mining.local import PIECES_PER_THREAD, mine
    from maabo_dist.screens.pairs import BitTable, screen_pairs
    from maabo_dist.screens.screen import MAX_PAIRS
    from maabo_dist.settings import MiningSettings, TableSettings
    from maabo_dist.study import split_for

    settings, steps = MiningSettings(), []
    mine(tables.generated(200, 50), settings)  # compiles
    before = resident_megabytes()

    def step(name: str, call: Callable[[], T]) -> T:
        start, cpu = perf_counter(), process_time()
        result = call()
        steps.append((name, perf_counter() - start, process_time() - cpu, peak_megabytes()))
        return result

    columns = step("prepare", lambda: prepare(open_columns(path), TableSettings(target="y"))).columns
    with ThreadPoolExecutor(THREADS) as pool:
        bits = step("bits", lambda: BitTable.build(columns, split_for(columns, settings)))
        pieces = THREADS * PIECES_PER_THREAD
        step("all pairs", lambda: screen_pairs(bits, MAX_PAIRS, pool=pool, pieces=pieces))
    result = step("mine, with all pairs", lambda: mine(columns, settings, jobs=THREADS))
    rules = sorted({condition.feature for rule in result.rules for condition in rule.conditions})
    return {"before": before, "steps": steps, "rules": rules}


if __name__ == "__main__":
    print(json.dumps(_measure(Path(sys.argv[1]))))
