"""Planted rules that methods find: all methods at D = 1,000, the fast ones at D = 10,000."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pandas as pd

from bench.printing import Goal
from bench.quality import methods
from bench.quality.estimates import group_by, mean, ratio, values
from bench.quality.experiment import Check, Experiment, Record, Run, Summary
from bench.quality.figure import Panel, Series
from bench.quality.methods import Mined, Table
from bench.quality.peer_client import PeerError
from maabo_dist.research.synthetic.generation import TARGET, Truth, generate, match_frame
from maabo_dist.research.synthetic.recipe import Recipe
from maabo_dist.research.synthetic.scoring import score

DEFAULT_SEEDS = 10
FEATURES, MANY_FEATURES, ROWS = 1000, 10_000, 3000
QUICK = {"features": 60, "rows": 1500}
ALL_METHODS = {"auto": None, "all": None, "paper": None, "random": None, "FIGS": None, "RuleFit": None, "SkopeRules": 2}
ALL_METHODS |= {"pysubgroup": 2, methods.TPE: 5}
"""The methods, with a maximum number of seeds for slow ones."""
WIDE_METHODS = {"auto": None, "all": None, "paper": None, "FIGS": 2}
NEARLY_ALL = 0.9


def recipe(features: int, rows: int, seed: int) -> Recipe:
    """A conjunction of 2 and one of 3 conditions on 12 % of the rows each; an XOR decides all others: six rules."""
    planted = {"conjunctions": (2, 3), "xor": 1, "coverage": (0.12,)}
    return Recipe.parse({"rows": rows, "features": features, "seed": seed, **planted})


def measure(features: int, who: dict[str, int | None], run: Run) -> Iterator[Record]:
    size = QUICK if run.quick else {"features": features, "rows": ROWS}
    if not run.quick:
        _warm_up(run)
    for seed in run.seed_range(DEFAULT_SEEDS):
        frame, truth = generate(recipe(seed=seed, **size))
        for name, max_seeds in who.items():
            method = methods.method(name, run.peers)
            if method is None or not run.includes(name) or (max_seeds is not None and seed >= max_seeds):
                continue
            record: Record = {"method": name, "seed": seed, **size}
            try:
                mined = method(Table(frame, TARGET, seed, run.jobs))
            except PeerError as error:
                yield {**record, "failed": str(error)}
            else:
                yield {**record, **_figures(mined, truth, frame)}


def _warm_up(run: Run) -> None:
    """Compile the kernels, so that the first table is timed like the others."""
    frame, _ = generate(recipe(60, 300, 0))
    for name in methods.OURS:
        methods.method(name, None)(Table(frame, TARGET, 0, run.jobs))


def _figures(mined: Mined, truth: Truth, frame) -> Record:
    result = score(mined.rules, truth, frame)
    structures = {rule.id: rule.structure.split()[0] for rule in truth.rules}
    exact = [structures[finding.planted] for finding in result.planted if finding.verdict == "exact"]
    parts = {f"{kind}_exact": exact.count(kind) for kind in ("conjunction", "xor")}
    literals = score(mined.rules, truth, fresh=0).totals["exact"]
    explained = count_explained(truth, frame, {each.planted for each in result.planted if each.verdict == "exact"})
    figures = {"literals": literals, "explained": explained, "seconds": mined.seconds, "cpu": mined.cpu, "failed": None}
    return {**result.totals, **parts, **figures}


def count_explained(truth: Truth, frame: pd.DataFrame, exact: set[str]) -> int:
    """The number of planted rules that were found, or nearly all of whose rows are those of rules that were found."""
    rows = {rule.id: match_frame(frame, rule.conditions) for rule in truth.rules}
    explained = 0
    for rule in truth.rules:
        found = [rows[other.id] for other in truth.rules if other.id in exact and other.label == rule.label]
        covered = np.logical_or.reduce(found, initial=False) & rows[rule.id]
        explained += rule.id in exact or bool(covered.sum() >= NEARLY_ALL * rows[rule.id].sum())
    return explained


def summarise(goal: float, records: Sequence[Record]) -> Summary:
    by_method = {name: [r for r in rows if not r.get("failed")] for name, rows in group_by(records, "method").items()}
    failed = [f"{r['method']}, seed {r['seed']}: {r['failed']}." for r in records if r.get("failed")]
    rows = [_row(name, done) for name, done in by_method.items() if done]
    columns = [
        "",
        "seeds",
        "exact %",
        "of conj. %",
        "of XOR %",
        "literals %",
        "extra %",
        "missed %",
        "explained %",
        "rules",
        "noisy %",
    ]
    columns += ["fresh precision", "wall s", "CPU s"]
    return Summary(columns, rows, _checks(by_method, goal), failed)


def _row(name: object, done: Sequence[Record]) -> list[str]:
    shares = [_recovered_share(done, verdict).percent for verdict in ("literals", "extra", "missed")]
    shares += ["–" if done[0].get("explained") is None else _recovered_share(done, "explained").percent]
    return [
        str(name),
        str(len(done)),
        _recovered_share(done, "exact").percent,
        ratio(values(done, "conjunction_exact"), [2] * len(done)).percent,
        ratio(values(done, "xor_exact"), [4] * len(done)).percent,
        *shares,
        mean(values(done, "mined")).format(".1f"),
        _noisy(done).percent,
        mean(values(done, "fresh_precision")).format(".3f"),
        mean(values(done, "seconds")).format(".1f"),
        mean(values(done, "cpu")).format(".1f"),
    ]


def _checks(by_method: dict, goal: float) -> list[Check]:
    auto, figs = by_method.get("auto"), by_method.get("FIGS")
    if not auto:
        return []
    checks = [
        Check(
            "auto: planted rules explained", 100 * _recovered_share(auto, "explained").value, Goal(minimum=goal), " %"
        ),
        Check("auto: rules with a noise literal", 100 * _noisy(auto).value, Goal(maximum=5), " %"),
    ]
    if every := by_method.get("all"):
        exact, noisy = _recovered_share(every, "exact"), _noisy(every)
        checks += [
            Check("all: planted rules found exactly", 100 * exact.value, Goal(minimum=goal), " %"),
            Check("all: rules with a noise literal", 100 * noisy.value, Goal(maximum=5), " %"),
        ]
    if figs:
        seeds = {record["seed"] for record in figs}
        same = [record for record in auto if record["seed"] in seeds]
        for what, name in (("wall", "seconds"), ("CPU", "cpu")):
            times = ratio(values(same, name), values(figs, name)).value
            checks.append(Check(f"auto: {what} time relative to FIGS, same tables", times, Goal(maximum=1), "×"))
    return checks


def _recovered_share(done: Sequence[Record], verdict: str):
    return ratio(values(done, verdict), values(done, "planted"))


def _noisy(done: Sequence[Record]):
    return ratio(values(done, "with_noise"), values(done, "mined"))


def panels(goal: float, records: Sequence[Record]) -> list[Panel]:
    groups = group_by([record for record in records if not record.get("failed")], "method")

    def bars(estimate, scale: float) -> list[Series]:
        estimates = ((str(name), estimate(done)) for name, done in groups.items())
        return [Series(n, [scale * e.value], [scale * e.error], ours=n == "auto") for n, e in estimates]

    return [
        Panel("planted rules found exactly", "%", bars(lambda done: _recovered_share(done, "exact"), 100), goal=goal),
        Panel("published rules with a noise literal", "%", bars(_noisy, 100), goal=5),
        Panel("wall time", "s", bars(lambda done: mean(values(done, "seconds")), 1)),
    ]


ABOUT = (
    "Two conjunctions and an XOR are planted in {features:,} columns × {rows:,} rows, six rules in total, with 5 % "
    "wrong labels. *Exact*: the planted literals and no other, on the planted rows (Jaccard ≥ 0.8); *literals*: the "
    "same with any thresholds; *extra*: one more literal; *noisy*: published rules that use a noise column; *fresh "
    "precision*: on 10,000 further rows. All rules of a peer count as published. `auto` is the short list of findings, "
    "`all` every certified rule (`--all`). The table is drawn so that no row gets two classes: the rows of the "
    "conjunctions are also rows of the XOR, with the same class. The short list has findings only for rows that no "
    f"earlier one explains, and so those of the XOR alone. *Explained*: found exactly, or at least {NEARLY_ALL:.0%} of "
    "its rows are those of planted rules of its class that were."
)


def _experiment(name: str, features: int, who: dict[str, int | None], goal: float, more: str) -> Experiment:
    return Experiment(
        name=name,
        title=f"Planted rules, D = {features:,}",
        about=f"{ABOUT.format(features=features, rows=ROWS)} {more}",
        measure=partial(measure, features, who),
        summarise=partial(summarise, goal),
        panels=partial(panels, goal),
    )


PLANTED = _experiment(
    "planted",
    FEATURES,
    ALL_METHODS,
    90,
    f"Our methods grow 10,000 trees; Optuna's TPE proposes {methods.TPE_TREES:,} subsets, which our depth search "
    "scores, and the rules are selected as in `auto`; SkopeRules and pysubgroup run on fewer tables, because they are "
    "slow.",
)
WIDE = _experiment("wide", MANY_FEATURES, WIDE_METHODS, 80, "FIGS runs on fewer tables, because it is slow.")
