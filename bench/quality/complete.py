"""Complete screens: planted rules that only sets of three or four columns show, narrow rules, and wide tables."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.printing import Goal
from bench.quality import methods
from bench.quality.estimates import group_by, mean, ratio, values
from bench.quality.experiment import Check, Experiment, Record, Run, Summary
from bench.quality.figure import Panel, Series
from bench.quality.methods import Mined, Table
from bench.quality.peer_client import PeerError
from bench.quality.power_tables import TARGET, Plant, PowerTable, make_table
from maabo_dist.research.synthetic import generation
from maabo_dist.research.synthetic.generation import generate, match_frame
from maabo_dist.research.synthetic.recipe import Recipe

DEFAULT_SEEDS, FIRST_SEED = 10, 100
"""The design was chosen on the seeds below the first one."""
SAME_ROWS = 0.5
MAX_SEEDS = {"auto": None, "paper": None, "FIGS": 3, "RuleFit": 3}
"""The methods, with a maximum number of seeds for slow ones."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of table, and the share of planted rules that should be found."""

    make: Callable[[int], PowerTable]
    goal: float
    settings: Mapping[str, object] = field(default_factory=dict)
    peers: bool = True
    """False if peers cannot mine such a table, or take hours."""


def _planted(rows: int, features: int, **recipe: object) -> Callable[[int], PowerTable]:
    def make(seed: int) -> PowerTable:
        frame, truth = generate(Recipe.parse({"rows": rows, "features": features, "seed": seed, **recipe}))
        plants = tuple(
            Plant(rule.label, frozenset(each.name for each in rule.conditions), match_frame(frame, rule.conditions))
            for rule in truth.rules
        )
        return PowerTable(frame.rename(columns={generation.TARGET: TARGET}), plants)

    return make


def _hard(kind: str) -> Callable[[int], PowerTable]:
    return lambda seed: make_table(kind, seed, columns=1000, rows=4000)


KINDS = {
    "parity of three, D = 200": Kind(_planted(3000, 200, parity=1), 90),
    "parity of three, D = 1,000": Kind(_planted(3000, 1000, parity=1), 90),
    "conjunctions, D = 10,000": Kind(_planted(3000, 10_000, conjunctions=(2, 3), coverage=(0.12,)), 98, peers=False),
    "conjunctions of four, D = 300": Kind(_planted(3000, 300, conjunctions=(4, 4)), 75, {"subset_size": 4}),
    "narrow tails, D = 1,000": Kind(_hard("narrow tails"), 90),
    "rare class, D = 1,000": Kind(_hard("rare class"), 90),
    "five classes, D = 1,000": Kind(_hard("five classes"), 90, peers=False),
}
QUICK = {"parity of three, D = 200": Kind(_planted(1500, 40, parity=1), 90)}


def measure(run: Run) -> Iterator[Record]:
    for kind, about in (QUICK if run.quick else KINDS).items():
        for seed in (FIRST_SEED + number for number in run.seed_range(DEFAULT_SEEDS)):
            table = about.make(seed)
            for name, most in MAX_SEEDS.items():
                is_ours = name in methods.OURS
                if not run.includes(name) or (most is not None and seed >= FIRST_SEED + most):
                    continue
                if not is_ours and (not about.peers or run.peers is None):
                    continue
                record: Record = {"kind": kind, "method": name, "seed": seed}
                try:
                    mined = _mine(name, about, Table(table.frame, TARGET, seed, run.jobs), run)
                except PeerError as error:
                    yield {**record, "failed": str(error)}
                else:
                    yield {**record, **_compare(mined, table), "cpu": mined.cpu, "failed": None}


def _mine(name: str, kind: Kind, table: Table, run: Run) -> Mined:
    if name in methods.OURS:
        return methods.mine_ours({**methods.OURS[name], **kind.settings}, table)
    method = methods.method(name, run.peers)
    assert method is not None
    return method(table)


def _compare(mined: Mined, table: PowerTable) -> Record:
    """Count the planted rules for whose class a rule has exactly their columns, and mostly rows of theirs."""
    rules = [
        (rule.label, frozenset(each.name for each in rule.conditions), match_frame(table.frame, rule.conditions))
        for rule in mined.rules
    ]
    found = [any(_is_same(plant, *rule) for rule in rules) for plant in table.plants]
    noise = sum(bool(columns & table.noise) for _, columns, _ in rules)
    return {"planted": len(found), "found": sum(found), "rules": len(rules), "noise": noise}


def _is_same(plant: Plant, label: str, columns: frozenset[str], rows: np.ndarray) -> bool:
    inside = (rows & plant.rows).sum() >= SAME_ROWS * rows.sum()
    return label == plant.label and columns == plant.columns and bool(inside)


def summarise(records: Sequence[Record]) -> Summary:
    groups = group_by([record for record in records if not record.get("failed")], "kind")
    failed = [f"{r['kind']}, {r['method']}, seed {r['seed']}: {r['failed']}." for r in records if r.get("failed")]
    rows, checks = [], []
    for kind, done in groups.items():
        for method, own in group_by(done, "method").items():
            rows.append(_row(str(kind), str(method), own))
            if method == "auto":
                goal = Goal(minimum=KINDS[str(kind)].goal)
                checks.append(Check(f"{kind}: planted rules found", 100 * _found(own).value, goal, " %"))
    return Summary(["", "method", "seeds", "found %", "rules", "with noise %", "CPU s"], rows, checks, failed)


def _row(kind: str, method: str, done: Sequence[Record]) -> list[str]:
    return [
        kind,
        method,
        str(len(done)),
        _found(done).percent,
        mean(values(done, "rules")).format(".1f"),
        ratio(values(done, "noise"), values(done, "rules")).percent,
        mean(values(done, "cpu")).format(".1f"),
    ]


def _found(done: Sequence[Record]):
    return ratio(values(done, "found"), values(done, "planted"))


def panels(records: Sequence[Record]) -> list[Panel]:
    done = [record for record in records if not record.get("failed")]
    return [
        Panel(
            str(kind),
            "% found",
            [
                Series(str(method), [100 * (share := _found(each)).value], [100 * share.error], ours=method == "auto")
                for method, each in group_by(own, "method").items()
            ],
        )
        for kind, own in group_by(done, "kind").items()
    ]


COMPLETE = Experiment(
    name="complete",
    title="Complete screens",
    about="Tables whose planted rules need complete counts of pairs and triples, or narrow conditions. *Parity of "
    "three*: the class depends on whether an odd number of three columns is large, eight rules of three conditions, "
    "and neither a column nor a pair shows anything; *conjunctions*: one of two conditions and one of three; "
    "*conjunctions of four*: two, with `--subset-size 4`; the others as in *Power*. *Found*: a rule of the class has "
    "conditions on exactly the planted columns, and half of its rows or more are the planted ones. *With noise*: "
    f"rules that use another column. The tables are those of the seeds from {FIRST_SEED} on; the design was chosen on "
    "others. FIGS and RuleFit run on fewer tables, because they are slow.",
    measure=measure,
    summarise=summarise,
    panels=panels,
)
