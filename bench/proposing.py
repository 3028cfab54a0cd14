"""`suggest` for a batch of 256 compared with the evaluation of that batch, during a search."""

from statistics import median
from time import perf_counter

from bench import printing, tables
from maabo_dist.search.plan import SearchPlan
from maabo_dist.search.proposer import SubsetProposer
from maabo_dist.settings import MiningSettings
from maabo_dist.trees.training import depth_search

BATCH = 256


def run(options) -> None:
    name = "Titanic + 20 noise" if options.titanic else "like Titanic + 20 noise"
    cases = [
        (name, tables.noisy_titanic(options.titanic)),
        ("1,000 features × 2,000 rows", tables.generated(2000, 1000)),
    ]
    if not options.quick:
        cases.append(("20,000 features × 2,000 rows", tables.generated(2000, 20_000)))
    rows, costs = [], []
    for name, columns in cases:
        suggest, evaluate, observe = _rounds(columns, 4 if options.quick else 8)
        rows.append((name, suggest, evaluate, suggest / evaluate, printing.Goal(maximum=1)))
        costs.append(f"{name}: {(suggest + observe) / BATCH * 1e6:.2f} µs a subset for suggest and observe")
    notes = [*costs, "Median of the rounds of a search after its first 1,024 trees; one thread, p_max = 5, D′ = 3."]
    printing.print_comparison(
        f"3. suggest({BATCH}) compared with growing these {BATCH} trees", "suggest", "evaluate", rows, notes
    )


def _rounds(columns, rounds: int) -> tuple[float, float, float]:
    settings = MiningSettings(preset="paper", trees=BATCH * (rounds + 5), batch=BATCH)
    proposer = SubsetProposer(settings, SearchPlan.settle(settings, columns.count))
    table = tables.training(columns)
    seconds = []
    for _ in range(rounds + 5):
        start = perf_counter()
        subsets = proposer.suggest(BATCH)
        suggested = perf_counter()
        scores = depth_search(table, subsets, settings.max_depth).best_scores
        grown = perf_counter()
        proposer.observe(subsets, scores)
        seconds.append((suggested - start, grown - suggested, perf_counter() - grown))
    suggest, evaluate, observe = zip(*seconds[5:], strict=True)
    return median(suggest), median(evaluate), median(observe)
