"""`python -m bench.rows`: mine generated tables of 10⁶ to 10⁷ rows, and count 100 rules beside DuckDB.

Tables are written to a scratch directory and removed. CPU seconds are compared, one thread each, as other programs may
run on the machine; wall times are shown beside them.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from bench.printing import Goal, console, format_time, format_verdict, print_table
from bench.rows.tables import PLANTED, write_table
from maabo_dist.contract.conditions import Condition, Op
from maabo_dist.contract.result import ResultDocument
from maabo_dist.contract.rules import RuleRecord
from maabo_dist.data.columns import Feature, FeatureKind
from maabo_dist.data.datasets import Dataset
from maabo_dist.data.encoder import TableEncoder
from maabo_dist.data.split import Part
from maabo_dist.rules.all_rows import AllRows, DatasetRows

PEERS = Path(".venv-rows/bin/python")
MAX_MEGABYTES = 1536


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.rows", description=__doc__)
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6, 3e6, 1e7])
    parser.add_argument("--trees", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="seed of the tables")
    parser.add_argument("--scratch", metavar="DIR", help="where to write the tables (default: a temporary directory)")
    parser.add_argument("--peers", metavar="PYTHON", type=Path, default=PEERS, help="interpreter with the peers")
    parser.add_argument("--largest-training", type=float, default=3e6, help="rows that LightGBM is trained on, at most")
    options = parser.parse_args()
    mined, counted = [], []
    for rows in map(int, options.rows):
        with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
            table = Path(folder, "table")
            write_table(table, rows, options.seed)
            mined.append(_mine(table, rows, options))
            counted.append(_count(table, rows, options))
    _print(mined, counted)


def _peer(options: argparse.Namespace, name: str, folder: Path, request: dict) -> dict | None:
    if not options.peers.exists():
        return None
    command = [str(options.peers), str(Path(__file__).with_name("peers.py")), name, str(folder)]
    run = subprocess.run(command, input=json.dumps(request), stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(run.stdout)


def _mine(folder: Path, rows: int, options: argparse.Namespace) -> dict:
    """Run the command in a process of its own, and check its rules with DuckDB."""
    command = [sys.executable, "-m", "maabo_dist", "mine", str(folder), "--target", "y", "--json", "--quiet"]
    start = perf_counter()
    process = subprocess.Popen([*command, "--jobs", "1", "--trees", str(options.trees)], stdout=subprocess.PIPE)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"maabo mine ended with {status}")
    document = ResultDocument.parse_text(output)
    rules = document.rules
    found = {
        name: next((rule.id for rule in rules if rule.label == name and _columns(rule) == columns), "–")
        for name, columns in PLANTED.items()
    }
    result = {
        "rows": rows,
        "wall": perf_counter() - start,
        "cpu": usage.ru_utime + usage.ru_stime,
        "megabytes": usage.ru_maxrss / 1024,
        "digest": document.digest[:16],
        "found": found,
        "rules": len(rules),
        "exact": None,
        "training": None,
    }
    queries = [" AND ".join(map(_sql, rule.premise)) for rule in rules]
    counted = _peer(options, "duckdb", folder, {"rules": queries})
    if counted is not None:
        ours = [_all_rows(rule) for rule in rules]
        theirs = [{name: counts[index] for name, counts in counted["counts"].items()} for index in range(len(rules))]
        result["exact"] = ours == theirs
    if rows <= options.largest_training:
        result["training"] = _peer(options, "lightgbm", folder, {})
    return result


def _columns(rule: RuleRecord) -> set[str]:
    return {condition.feature for condition in rule.premise}


def _all_rows(rule: RuleRecord) -> dict[str, int]:
    parts = [rule.train.counts, rule.validation.counts, rule.holdout.counts]
    return {name: sum(part[name] for part in parts) for name in rule.counts}


def _sql(condition: Condition) -> str:
    name, value = f'"{condition.feature}"', condition.value
    # A missing number of these tables is NaN, which DuckDB puts above all others.
    present = f"NOT isnan({name})" if condition.feature.startswith("x") else f"{name} IS NOT NULL"
    if condition.op in {Op.IS_MISSING, Op.IS_PRESENT}:
        return present if condition.op is Op.IS_PRESENT else f"NOT ({present})"
    if isinstance(value, tuple):
        text = f"{name} {condition.op.value.upper()} ({', '.join(repr(each) for each in value)})"
    else:
        text = f"{name} {condition.op.value} {value!r}"
    return f"({text} OR NOT ({present}))" if condition.or_missing else f"({text} AND {present})"


def make_rules(count: int, seed: int) -> list[tuple[Condition, ...]]:
    """100 rules of one to four conditions on all columns, with few thresholds, as those of trees have."""
    rng = np.random.default_rng(seed)
    rules = []
    for _ in range(count):
        columns = rng.choice(50, size=int(rng.integers(1, 5)), replace=False)
        rules.append(tuple(_make_condition(int(column), rng) for column in columns))
    return rules


def _make_condition(column: int, rng: np.random.Generator) -> Condition:
    if column < 44:
        return Condition(f"x{column}", [Op.AT_MOST, Op.ABOVE][rng.integers(2)], round(float(rng.normal()), 1))
    if column < 47:
        return Condition(f"k{column - 44}", [Op.AT_MOST, Op.AT_LEAST][rng.integers(2)], float(rng.integers(5, 45)))
    return Condition(f"c{column - 47}", Op.IN, tuple(sorted(rng.choice(list("abcdefgh"), 3, replace=False).tolist())))


def _count(folder: Path, rows: int, options: argparse.Namespace) -> dict:
    """Count 100 rules, read their columns alone, and let DuckDB count: in turn, the best of two rounds."""
    table = Dataset.open(folder)
    rules = make_rules(100, options.seed)
    columns = tuple(dict.fromkeys(condition.feature for rule in rules for condition in rule))
    index = _index_rows(table)
    best: dict[str, tuple[float, float]] = {}
    theirs = None
    for _ in range(2):
        counter = AllRows(index, ())
        _time(best, "ours", lambda counter=counter: counter.count_premises(rules))
        _time(best, "read", lambda: [None for _ in table.batches(columns)])
        theirs = _peer(options, "duckdb", folder, {"rules": [" AND ".join(map(_sql, rule)) for rule in rules]})
        if theirs is not None:
            seconds = theirs["seconds"]
            best["duckdb"] = min(best.get("duckdb", (np.inf, np.inf)), (seconds["cpu"], seconds["wall"]))
    same = None
    if theirs is not None:
        counts = {
            name: [int(counter.counts_of(rule).sum(axis=0)[label]) for rule in rules]
            for label, name in enumerate(index.classes)
        }
        same = counts == theirs["counts"]
    return {"rows": rows, "same": same} | best


def _time(best: dict, name: str, call) -> None:
    clock, wall = process_time(), perf_counter()
    call()
    best[name] = min(best.get(name, (np.inf, np.inf)), (process_time() - clock, perf_counter() - wall))


def _index_rows(table: Dataset) -> DatasetRows:
    """The class of each row, and parts by chance, as a mining run would have them."""
    classes = ("gold", "no", "rare", "yes")
    labels = np.empty(table.rows, np.uint8)
    for batch in table.batches(["y"]):
        cells = batch.cells.column(0)
        lookup = np.array([classes.index(each) for each in cells.dictionary.to_pylist()], np.uint8)
        labels[batch.start : batch.start + len(cells)] = lookup[cells.indices.to_numpy()]
    parts = np.random.default_rng(0).integers(0, len(Part), table.rows, np.uint8)
    totals = np.zeros((len(Part), len(classes)), np.int64)
    np.add.at(totals, (parts, labels), 1)
    kinds = {"x": FeatureKind.NUMBER, "k": FeatureKind.NUMBER, "c": FeatureKind.LEVEL}
    features = tuple(Feature(name, name, kinds[name[0]], ("a",)) for name in table.names if name != "y")
    return DatasetRows(table, classes, labels, parts, totals, TableEncoder(features))


def _print(mined: list[dict], counted: list[dict]) -> None:
    rows = []
    for each in mined:
        training = each["training"]
        rows.append(
            (
                f"{each['rows']:,} rows",
                format_time(each["wall"]),
                format_time(each["cpu"]),
                f"{each['megabytes']:,.0f} MB",
                *format_verdict(each["megabytes"], Goal(maximum=MAX_MEGABYTES)),
                ", ".join(f"{name} {id_}" for name, id_ in each["found"].items()),
                {True: "yes", False: "NO", None: ""}[each["exact"]],
                "" if training is None else format_time(training["seconds"]["cpu"]),
                "" if training is None else f"{training['megabytes']:,.0f} MB",
            )
        )
    head = ["maabo mine DIR", "wall", "CPU", "memory", "goal", "", "planted", "exact", "LightGBM", "memory"]
    print_table("Search a sample, count all rows", head, rows)
    rows = []
    for each in counted:
        ours, read, peer = (each.get(name, (np.nan, np.nan))[0] for name in ("ours", "read", "duckdb"))
        rows.append(
            (
                f"{each['rows']:,} rows",
                format_time(ours),
                format_time(read),
                f"{ours / read:.2f}×",
                *format_verdict(ours / read, Goal(maximum=2)),
                *(
                    (format_time(peer), f"{peer / ours:.2f}×", *format_verdict(peer / ours, Goal(minimum=5)))
                    if "duckdb" in each
                    else ("", "", "", "")
                ),
                {True: "yes", False: "NO", None: ""}[each["same"]],
            )
        )
    head = ["100 rules", "ours", "reading", "ratio", "goal", "", "DuckDB", "ratio", "goal", "", "equal"]
    print_table("Count 100 rules on all rows, CPU seconds of one thread", head, rows)
    console.print(json.dumps({"mined": mined, "counted": counted}), style="dim", soft_wrap=True)


if __name__ == "__main__":
    main()
