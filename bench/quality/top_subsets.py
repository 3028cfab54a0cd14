"""The number of the best subsets of breast_cancer that a search finds; all 4,060 at D′ = 3 are known by enumeration."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.printing import Goal
from bench.quality.estimates import group_by, mean, values
from bench.quality.experiment import Check, Experiment, Record, Run, Summary
from bench.quality.figure import Panel, Series
from bench.quality.peer_client import PeerError, Peers, Searcher
from maabo_dist.data.bundled import load_bundled
from maabo_dist.data.columns import Columns
from maabo_dist.data.preparation import prepare
from maabo_dist.mining.local import mine
from maabo_dist.settings import MiningSettings

DEFAULT_SEEDS, TREES, TOP = 10, 250, 0.01
OURS = {"MAABO-MT": "maabo", "random": "random"}
PEERS = {"Optuna TPE": "optuna", "hyperopt TPE": "hyperopt"}
MAX_PROPOSALS = 4 * TREES
"""Stops a searcher that only repeats itself."""

Subset = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """The number of best subsets among a peer's first proposals, and among its first distinct subsets."""

    by_proposals: int
    by_trees: int


def measure(run: Run) -> Iterator[Record]:
    frame, table = load_bundled("breast_cancer")
    columns = prepare(frame, table).columns
    for seed in run.seed_range(DEFAULT_SEEDS):
        scores = _enumerate_scores(columns, seed, run.jobs)
        best = best_share(scores, TOP)
        record: Record = {"seed": seed, "space": len(scores), "best": len(best)}
        for name, strategy in OURS.items():
            best_found = best & _search(columns, strategy, seed)
            yield {**record, "method": name, "by_proposals": len(best_found), "by_trees": len(best_found)}
        for name, searcher in PEERS.items() if run.peers else ():
            yield {**record, "method": name, **_by_peer(run.peers, searcher, columns.count, seed, scores, best)}


def best_share(scores: Mapping[Subset, float], part: float) -> set[Subset]:
    """The best subsets, and all that tie with the last of them."""
    ranked = sorted(scores.values(), reverse=True)
    threshold = ranked[max(1, round(part * len(ranked))) - 1]
    return {subset for subset, value in scores.items() if value >= threshold}


def run_searcher(searcher: Searcher, scores: Mapping[Subset, float], best: set[Subset]) -> Found:
    """Ask for proposals until there are enough distinct subsets; one with a repeated feature scores 0."""
    proposed: list[Subset] = []
    while len(set(proposed) - {()}) < TREES and len(proposed) < MAX_PROPOSALS:
        subset = tuple(sorted(set(searcher.ask())))
        searcher.tell(scores.get(subset, 0.0))
        proposed.append(subset if subset in scores else ())
    distinct = [subset for subset in dict.fromkeys(proposed) if subset][:TREES]
    return Found(len(best & set(proposed[:TREES])), len(best & set(distinct)))


def _enumerate_scores(columns: Columns, seed: int, jobs: int) -> dict[Subset, float]:
    settings = MiningSettings(preset="paper", strategy="exhaustive", trees="100%", seed=seed)
    return _scores(mine(columns, settings, jobs=jobs, keep_trees=True).forest)


def _search(columns: Columns, strategy: str, seed: int) -> set[Subset]:
    """One subset at a time, as the paper does."""
    settings = MiningSettings(preset="paper", strategy=strategy, trees=TREES, batch=1, seed=seed)
    return set(_scores(mine(columns, settings, keep_trees=True).forest))


def _scores(forest) -> dict[Subset, float]:
    return dict(zip(map(tuple, forest.subsets.tolist()), forest.best_scores.tolist(), strict=True))


def _by_peer(
    peers: Peers, name: str, features: int, seed: int, scores: Mapping[Subset, float], best: set[Subset]
) -> Record:
    try:
        with peers.searcher(name, features, len(next(iter(scores))), seed) as searcher:
            counts = run_searcher(searcher, scores, best)
    except PeerError as error:
        return {"failed": str(error)}
    return {"by_proposals": counts.by_proposals, "by_trees": counts.by_trees}


def summarise(records: Sequence[Record]) -> Summary:
    done = [record for record in records if not record.get("failed")]
    groups = group_by(done, "method")
    rows = []
    for name, group in groups.items():
        counts = values(group, "by_trees")
        span = f"{min(counts)}–{max(counts)}"
        means = [mean(values(group, name)).format(".1f") for name in ("by_proposals", "by_trees")]
        rows.append([str(name), str(len(group)), *means, span])
    peers = [mean(values(group, "by_trees")).value for name, group in groups.items() if name in PEERS]
    ours = mean(values(groups["MAABO-MT"], "by_trees")).value
    checks = [Check("MAABO-MT relative to the better TPE", ours / max(peers), Goal(minimum=1), "×")] if peers else []
    best = values(done, "best")
    span = f"{min(best)} to {max(best)}"
    notes = [f"There are {span} best subsets, depending on the split, because ties with the last are included."]
    notes += [f"{r['method']}, seed {r['seed']}: {r['failed']}." for r in records if r.get("failed")]
    columns = ["", "seeds", f"in {TREES} proposals", f"in {TREES} distinct trees", "from–to"]
    return Summary(columns, rows, checks, notes)


def panels(records: Sequence[Record]) -> list[Panel]:
    groups = group_by([record for record in records if not record.get("failed")], "method")
    estimates = {str(name): mean(values(group, "by_trees")) for name, group in groups.items()}
    series = [Series(name, [e.value], [e.error], ours=name == "MAABO-MT") for name, e in estimates.items()]
    return [Panel(f"subsets of the top 1 % met in {TREES} trees", "", series)]


TOP_SUBSETS = Experiment(
    name="top-subsets",
    title="Subsets of the top 1 %, breast_cancer, D′ = 3",
    about=f"How many of the best subsets (by the validation F1 of their tree) a search finds with {TREES} trees. A "
    "TPE does not remember its proposals: repetitions count as proposals, not as trees; our search does not repeat "
    "subsets.",
    measure=measure,
    summarise=summarise,
    panels=panels,
)
