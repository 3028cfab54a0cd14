"""Power: the share of planted rules that the default run publishes, on tables that are hard in one way each."""

import os
from collections.abc import Iterator, Sequence
from time import perf_counter

import numpy as np

from bench.printing import Goal
from bench.quality.estimates import group_by, mean, ratio, values
from bench.quality.experiment import Check, Experiment, Record, Run, Summary
from bench.quality.figure import Panel, Series
from bench.quality.power_tables import KINDS, TARGET, Plant, PowerTable, make_table
from bench.real_tables.ours import masks_of_export
from maabo_dist.contract.result import ResultDocument
from maabo_dist.contract.rules import RuleRecord
from maabo_dist.data.preparation import prepare
from maabo_dist.mining.local import mine
from maabo_dist.report.document import result_document
from maabo_dist.report.exports import to_pandas
from maabo_dist.settings import MiningSettings, TableSettings

DEFAULT_SEEDS, COLUMNS, ROWS = 10, 200, 4000
QUICK = {"columns": 60, "rows": 1500}
SAME_ROWS = 0.5
GOAL = 90


def measure(run: Run) -> Iterator[Record]:
    size = QUICK if run.quick else {"columns": COLUMNS, "rows": ROWS}
    for seed in run.seed_range(DEFAULT_SEEDS):
        for kind in KINDS:
            if run.includes(kind):
                table = make_table(kind, seed, **size)
                yield {"kind": kind, "seed": seed, **size, **_mine(table, seed, run.jobs)}


def _mine(table: PowerTable, seed: int, jobs: int) -> Record:
    start, used = perf_counter(), sum(os.times()[:4])
    columns = prepare(table.frame, TableSettings(target=TARGET)).columns
    result = mine(columns, MiningSettings(seed=seed), jobs=jobs)
    seconds, cpu = perf_counter() - start, sum(os.times()[:4]) - used
    document = result_document(result, {"name": "power"})
    return {**count_findings(document, table), "trees": result.search.trees, "seconds": seconds, "cpu": cpu}


def count_findings(document: ResultDocument, table: PowerTable) -> Record:
    """Compare the findings with the planted rules."""
    masks = masks_of_export(to_pandas(document), table.frame.drop(columns=TARGET))
    by_rows = [[rule for rule in document.rules if _on_rows(plant, rule, masks[rule.id])] for plant in table.plants]
    matching = [
        [rule for rule in document.rules if rule in own or _on_columns(plant, rule, table)]
        for plant, own in zip(table.plants, by_rows, strict=True)
    ]
    heads = [{condition.feature for condition in rule.conditions} for rule in document.rules]
    named = [
        any(_names_proxy(rule, plant, table) for rule in own) for plant, own in zip(table.plants, matching, strict=True)
    ]
    return {
        "planted": len(table.plants),
        "found": sum(map(bool, matching)),
        "by_rows": sum(map(bool, by_rows)),
        "findings": len(document.rules),
        "repeats": sum(max(0, len(own) - 1) for own in matching),
        "noise": sum(bool(columns & table.noise) for columns in heads),
        "named": sum(named) if table.proxies else None,
    }


def _on_rows(plant: Plant, rule: RuleRecord, rows: np.ndarray) -> bool:
    """True for a rule of the class on nearly the planted rows."""
    return rule.label == plant.label and (rows & plant.rows).sum() >= SAME_ROWS * (rows | plant.rows).sum()


def _on_columns(plant: Plant, rule: RuleRecord, table: PowerTable) -> bool:
    """True for a rule of the class on the planted columns, or on proxies of them, and no others."""
    originals = {table.proxies.get(condition.feature, condition.feature) for condition in rule.conditions}
    return rule.label == plant.label and originals == plant.columns


def _names_proxy(rule: RuleRecord, plant: Plant, table: PowerTable) -> bool:
    """True if the stand-ins of a rule have a proxy in place of its original, or the other way round."""
    pairs = {(stand_in.column, stand_in.instead_of) for stand_in in rule.stand_ins}
    return any(
        original in plant.columns and {(proxy, original), (original, proxy)} & pairs
        for proxy, original in table.proxies.items()
    )


def summarise(records: Sequence[Record]) -> Summary:
    groups = group_by(records, "kind")
    rows = [_row(str(kind), done) for kind, done in groups.items()]
    columns = ["", "seeds", "found %", "by rows %", "findings", "repeats", "with noise", "proxies named %"]
    columns += ["wall s", "CPU s"]
    checks = [
        Check(f"{kind}: planted rules found", 100 * _found(done).value, Goal(minimum=GOAL), " %")
        for kind, done in groups.items()
    ]
    noise = float(sum(values(records, "noise")))
    return Summary(columns, rows, [*checks, Check("findings with a noise column, all kinds", noise, Goal(maximum=0))])


def _row(kind: str, done: Sequence[Record]) -> list[str]:
    named = "–" if done[0]["named"] is None else ratio(values(done, "named"), values(done, "planted")).percent
    return [
        kind,
        str(len(done)),
        _found(done).percent,
        ratio(values(done, "by_rows"), values(done, "planted")).percent,
        mean(values(done, "findings")).format(".1f"),
        str(sum(values(done, "repeats"))),
        str(sum(values(done, "noise"))),
        named,
        mean(values(done, "seconds")).format(".1f"),
        mean(values(done, "cpu")).format(".1f"),
    ]


def _found(done: Sequence[Record]):
    return ratio(values(done, "found"), values(done, "planted"))


def panels(records: Sequence[Record]) -> list[Panel]:
    groups = group_by(records, "kind")
    found = {str(kind): _found(done) for kind, done in groups.items()}
    noise = {str(kind): mean(values(done, "noise")) for kind, done in groups.items()}
    return [
        Panel(
            "planted rules found",
            "%",
            [Series(kind, [100 * each.value], [100 * each.error], ours=True) for kind, each in found.items()],
            goal=GOAL,
        ),
        Panel(
            "findings with a noise column",
            "a table",
            [Series(kind, [each.value], [each.error], ours=True) for kind, each in noise.items()],
        ),
    ]


POWER = Experiment(
    name="power",
    title="Power",
    about=f"The default run on tables of {COLUMNS} columns × {ROWS:,} rows with planted rules, each kind hard to find "
    "in one way. *Rare class*: 2 % positives, rules of precision 0.35 on 2 % of the rows; *weak rules*: "
    "precision 0.65, elsewhere 0.35; *narrow tails*: 3 % of the rows; *five classes*: a rule for each; *sets of "
    "levels*: 3 of 8 and 3 of 10 levels of text columns; *missingness*: a rule on the gaps of a column, and one on a "
    "column with gaps; *proxies*: five columns with a correlation of 0.9 to each causal one. *Found*: a finding of the "
    f"class has a row Jaccard coefficient of at least {SAME_ROWS} to the planted rows, or conditions on exactly the "
    "planted columns or proxies of them; *by rows*: the former. *Repeats*: further findings for a rule that was found. "
    "*With noise*: findings that use a column which has nothing to do with the class. *Proxies named*: planted rules "
    "whose finding names a proxy beside the original column.",
    measure=measure,
    summarise=summarise,
    panels=panels,
)
