"""Time and memory of `auto` by the number of features D; each measurement in its own process."""

import json
import sys
from collections.abc import Iterator, Sequence
from time import perf_counter, process_time

from bench.quality.estimates import group_by, mean, values
from bench.quality.experiment import Experiment, Record, Run, Summary
from bench.quality.figure import Panel, Series
from bench.timing import peak_megabytes, resident_megabytes, run_python

WIDTHS = (100, 300, 1000, 3000, 10_000, 20_000)
QUICK_WIDTHS = (100, 300)
ROWS, DEFAULT_SEEDS = 2000, 3


def measure(run: Run) -> Iterator[Record]:
    for seed in run.seed_range(DEFAULT_SEEDS):
        for features in QUICK_WIDTHS if run.quick else WIDTHS:
            figures = json.loads(run_python("-m", "bench.quality.growth", str(features), str(seed), str(run.jobs)))
            yield {"method": "auto", "features": features, "rows": ROWS, "seed": seed, **figures}


def summarise(records: Sequence[Record]) -> Summary:
    rows = []
    for features, done in group_by(records, "features").items():
        seconds = [mean(values(done, name)).format(".2f") for name in ("prepare", "mine", "cpu")]
        memory = [mean(values(done, name)).format(".0f") for name in ("peak", "before")]
        rows.append([f"{features:,}", str(len(done)), *seconds, *memory])
    return Summary(["D", "seeds", "prepare s", "mine s", "CPU s", "peak MB", "before MB"], rows)


def panels(records: Sequence[Record]) -> list[Panel]:
    groups = group_by(records, "features")
    widths = [int(features) for features in groups]

    def line(name: str, label: str) -> Series:
        estimates = [mean(values(done, name)) for done in groups.values()]
        return Series(label, [e.value for e in estimates], [e.error for e in estimates], widths)

    return [
        Panel("time", "s", [line("prepare", "prepare"), line("mine", "mine")], "lines", "features"),
        Panel("memory", "MB", [line("peak", "peak"), line("before", "table loaded")], "lines", "features"),
    ]


def _measure(features: int, seed: int, jobs: int) -> Record:
    from bench.quality.planted import recipe
    from maabo_dist.data.preparation import prepare
    from maabo_dist.mining.local import mine
    from maabo_dist.research.synthetic.generation import generate
    from maabo_dist.settings import MiningSettings, TableSettings

    table, settings = TableSettings(target="y"), MiningSettings(preset="auto", seed=seed)
    mine(prepare(generate(recipe(60, 300, 0)).frame, table).columns, settings, jobs=jobs)  # compiles
    frame = generate(recipe(features, ROWS, seed)).frame
    before, start, used = resident_megabytes(), perf_counter(), process_time()
    columns = prepare(frame, table).columns
    prepared = perf_counter()
    result = mine(columns, settings, jobs=jobs)
    ended = perf_counter()
    times = {"prepare": prepared - start, "mine": ended - prepared, "cpu": process_time() - used}
    return {**times, "peak": peak_megabytes(), "before": before, "rules": len(result.rules)}


GROWTH = Experiment(
    name="growth",
    title="Time and memory of `auto` as D grows",
    about=f"Tables of {ROWS:,} rows, planted as above. *CPU*: of both steps; *before*: memory with libraries and the "
    "table as a DataFrame of float64 loaded; *peak*: the maximum of the process, including the generation of the "
    "table.",
    measure=measure,
    summarise=summarise,
    panels=panels,
)

if __name__ == "__main__":
    print(json.dumps(_measure(*map(int, sys.argv[1:]))))
