"""Planted rules found again, at D = 1,000 by all methods and at D = 10,000 by those that are fast enough."""

from collections.abc import Iterator, Sequence
from functools import partial

from bench.quality import methods
from bench.quality.experiment import Check, Experiment, Record, Run, Summary
from bench.quality.figure import Panel, Series
from bench.quality.methods import Mined, Table
from bench.quality.peer_calls import PeerError
from bench.quality.statistics import column, grouped, mean, ratio
from bench.show import Goal
from maabo_dist.research.synthetic.generation import TARGET, generate
from maabo_dist.research.synthetic.recipe import Recipe
from maabo_dist.research.synthetic.scoring import score
from maabo_dist.research.synthetic.truth import Truth

USUAL_SEEDS = 10
FEATURES, MANY_FEATURES, ROWS = 1000, 10_000, 3000
QUICK = {"features": 60, "rows": 1500}
ALL_METHODS = {"auto": None, "paper": None, "random": None, "FIGS": None, "RuleFit": None, "SkopeRules": 2}
ALL_METHODS |= {"pysubgroup": 2, methods.TPE: 5}
"""With the most seeds of a slow one."""
WIDE_METHODS = {"auto": None, "paper": None, "FIGS": 2}


def recipe(features: int, rows: int, seed: int) -> Recipe:
    """A conjunction of 2 and one of 3 conditions on 12 % of the rows each; an XOR decides all others: six rules."""
    wanted = {"conjunctions": (2, 3), "xor": 1, "coverage": (0.12,)}
    return Recipe.parse({"rows": rows, "features": features, "seed": seed, **wanted})


def measure(features: int, who: dict[str, int | None], run: Run) -> Iterator[Record]:
    size = QUICK if run.quick else {"features": features, "rows": ROWS}
    if not run.quick:
        _warm_up(run)
    for seed in run.seeds_of(USUAL_SEEDS):
        frame, truth = generate(recipe(seed=seed, **size))
        for name, most in who.items():
            method = methods.method(name, run.peers)
            if method is None or not run.takes(name) or (most is not None and seed >= most):
                continue
            record: Record = {"method": name, "seed": seed, **size}
            try:
                mined = method(Table(frame, TARGET, seed, run.jobs))
            except PeerError as error:
                yield {**record, "failed": str(error)}
            else:
                yield {**record, **_figures(mined, truth, frame)}


def _warm_up(run: Run) -> None:
    """Compile, so that the first table is timed like the others."""
    frame, _ = generate(recipe(60, 300, 0))
    for name in methods.OURS:
        methods.method(name, None)(Table(frame, TARGET, 0, run.jobs))


def _figures(mined: Mined, truth: Truth, frame) -> Record:
    found = score(mined.rules, truth, frame)
    structures = {rule.id: rule.structure.split()[0] for rule in truth.rules}
    exact = [structures[finding.planted] for finding in found.planted if finding.verdict == "exact"]
    parts = {f"{kind}_exact": exact.count(kind) for kind in ("conjunction", "xor")}
    literals = score(mined.rules, truth, fresh=0).totals["exact"]
    return {**found.totals, **parts, "literals": literals, "seconds": mined.seconds, "cpu": mined.cpu, "failed": None}


def summarise(least: float, records: Sequence[Record]) -> Summary:
    by_method = {name: [r for r in rows if not r.get("failed")] for name, rows in grouped(records, "method").items()}
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
        "rules",
        "noisy %",
    ]
    columns += ["fresh precision", "wall s", "CPU s"]
    return Summary(columns, rows, _checks(by_method, least), failed)


def _row(name: object, done: Sequence[Record]) -> list[str]:
    shares = [_found(done, verdict).percent for verdict in ("literals", "extra", "missed")]
    return [
        str(name),
        str(len(done)),
        _found(done, "exact").percent,
        ratio(column(done, "conjunction_exact"), [2] * len(done)).percent,
        ratio(column(done, "xor_exact"), [4] * len(done)).percent,
        *shares,
        mean(column(done, "mined")).shown(".1f"),
        _noisy(done).percent,
        mean(column(done, "fresh_precision")).shown(".3f"),
        mean(column(done, "seconds")).shown(".1f"),
        mean(column(done, "cpu")).shown(".1f"),
    ]


def _checks(by_method: dict, least: float) -> list[Check]:
    auto, figs = by_method.get("auto"), by_method.get("FIGS")
    if not auto:
        return []
    checks = [
        Check("auto: planted rules found exactly", 100 * _found(auto, "exact").value, Goal(least=least), " %"),
        Check("auto: rules with a noise literal", 100 * _noisy(auto).value, Goal(most=5), " %"),
    ]
    if figs:
        seeds = {record["seed"] for record in figs}
        same = [record for record in auto if record["seed"] in seeds]
        for what, name in (("wall", "seconds"), ("CPU", "cpu")):
            times = ratio(column(same, name), column(figs, name)).value
            checks.append(Check(f"auto: {what} time relative to FIGS, same tables", times, Goal(most=1), "×"))
    return checks


def _found(done: Sequence[Record], verdict: str):
    return ratio(column(done, verdict), column(done, "planted"))


def _noisy(done: Sequence[Record]):
    return ratio(column(done, "with_noise"), column(done, "mined"))


def panels(least: float, records: Sequence[Record]) -> list[Panel]:
    groups = grouped([record for record in records if not record.get("failed")], "method")

    def bars(estimate, scale: float) -> list[Series]:
        made = ((str(name), estimate(done)) for name, done in groups.items())
        return [Series(n, [scale * e.value], [scale * e.error], ours=n == "auto") for n, e in made]

    return [
        Panel("planted rules found exactly", "%", bars(lambda done: _found(done, "exact"), 100), goal=least),
        Panel("published rules with a noise literal", "%", bars(_noisy, 100), goal=5),
        Panel("wall time", "s", bars(lambda done: mean(column(done, "seconds")), 1)),
    ]


ABOUT = (
    "Two conjunctions and an XOR are planted in {features:,} columns × {rows:,} rows, six rules in all, 5 % of the "
    "labels in them wrong. *Exact*: the planted literals and no other, on the planted rows (Jaccard ≥ 0.8); "
    "*literals*: the same, wherever the thresholds are; *extra*: one literal more; *noisy*: published rules that use a "
    "column which decides nothing; *fresh precision*: on 10,000 further rows. All of a peer's rules count as published."
)


def _experiment(name: str, features: int, who: dict[str, int | None], least: float, more: str) -> Experiment:
    return Experiment(
        name=name,
        title=f"Planted rules, D = {features:,}",
        about=f"{ABOUT.format(features=features, rows=ROWS)} {more}",
        measure=partial(measure, features, who),
        summarise=partial(summarise, least),
        panels=partial(panels, least),
    )


PLANTED = _experiment(
    "planted",
    FEATURES,
    ALL_METHODS,
    90,
    f"Ours grow 10,000 trees; Optuna's TPE proposes {methods.TPE_TREES:,}, scored by our depth search, its rules "
    "chosen as in `auto`; SkopeRules and pysubgroup run on fewer tables, as they take long.",
)
WIDE = _experiment("wide", MANY_FEATURES, WIDE_METHODS, 80, "FIGS runs on fewer tables, as it takes long.")
