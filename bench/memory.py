"""Peak memory, each in its own process: a proposer with a history of 10⁶ subsets, and a search in 20,000 features."""

import json
import sys
from time import perf_counter

import numpy as np

from bench import printing, tables
from bench.timing import peak_megabytes, resident_megabytes, run_python


def run(options) -> None:
    history = 100_000 if options.quick else 1_000_000
    features = 5000 if options.quick else 20_000
    proposer, search = _measure_in_process("proposer", history), _measure_in_process("search", features)
    rows = [
        (
            f"{history:,} subsets of 3 out of 1,000 observed",
            f"{proposer['peak']:,.0f} MB",
            f"{proposer['before']:,.0f} MB",
            f"{(proposer['peak'] - proposer['before']) * 2**20 / history:,.0f} B a subset",
        ),
        ("  then suggest(256)", "", "", f"{proposer['suggest'] * 1e3:.2f} ms"),
        ("  suggest and observe in batches of 4,096, a subset", "", "", f"{proposer['each'] * 1e6:.2f} µs"),
        (
            f"{features:,} features × 2,000 rows, D′ = 3, 2,000 trees",
            f"{search['peak']:,.0f} MB",
            f"{search['before']:,.0f} MB",
            f"{(search['peak'] - search['before']) * 2**20 / (features * 2000):.1f} B a cell",
        ),
        ("  prepare the table", "", "", printing.format_time(search["prepare"])),
        ("  search, select, publish (one thread)", "", "", printing.format_time(search["search"])),
    ]
    notes = [
        "Peak resident memory of a fresh process, interpreter and libraries included. Before: with these",
        "loaded and, for the search, the table as a DataFrame of float64 (8 B a cell).",
    ]
    printing.print_table("6. Memory", ["", "peak", "before", ""], rows, notes)


def _measure_in_process(workload: str, size: int) -> dict[str, float]:
    return json.loads(run_python("-m", "bench.memory", workload, str(size)))


def _proposer(history: int) -> dict[str, float]:
    from maabo_dist.search.plan import SearchPlan
    from maabo_dist.search.proposer import SubsetProposer
    from maabo_dist.settings import MiningSettings

    def propose(total: int) -> tuple[SubsetProposer, float]:
        settings = MiningSettings(preset="paper", trees=total, batch=4096)
        proposer = SubsetProposer(settings, SearchPlan.settle(settings, 1000))
        random, start, done = np.random.default_rng(0), perf_counter(), 0
        while done < total:
            subsets = proposer.suggest(min(4096, total - done))
            proposer.observe(subsets, random.random(len(subsets)))
            done += len(subsets)
        return proposer, (perf_counter() - start) / total

    propose(10_000)  # compiles
    before = resident_megabytes()
    proposer, each = propose(history)
    peak, start = peak_megabytes(), perf_counter()
    proposer.suggest(256)
    return {"before": before, "peak": peak, "each": each, "suggest": perf_counter() - start}


def _search(features: int) -> dict[str, float]:
    from maabo_dist.data.preparation import prepare
    from maabo_dist.mining.local import mine
    from maabo_dist.settings import MiningSettings, TableSettings

    settings = MiningSettings(preset="paper", trees=2000)
    mine(tables.generated(200, 50), settings)  # compiles
    frame = tables.generated_frame(2000, features)
    before, start = resident_megabytes(), perf_counter()
    columns = prepare(frame, TableSettings(target="label")).columns
    prepared = perf_counter()
    mine(columns, settings)
    searched = perf_counter()
    return {"before": before, "peak": peak_megabytes(), "prepare": prepared - start, "search": searched - prepared}


if __name__ == "__main__":
    print(json.dumps({"proposer": _proposer, "search": _search}[sys.argv[1]](int(sys.argv[2]))))
