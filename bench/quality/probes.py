"""What probes say against the truth: on generated tables, the share of published rules with a noise column is known.

python -m bench.quality.probes [SEEDS]
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass

from maabo_dist.data import prepare
from maabo_dist.mining import mine
from maabo_dist.settings import MiningSettings, TableSettings
from maabo_dist.synthetic import MinedRule, Recipe, generate, score

CASES = {
    # name: (recipe, settings); wide and narrow tables, few and many probes, few and many rules of chance
    "paper, 50 + 50": (
        {"features": 50, "conjunctions": (2, 3, 2), "coverage": (0.15,)},
        {"literals": "paper", "probes": 50, "trees": 2000, "gini": 0.4},
    ),
    "paper, 50 + 20": (
        {"features": 50, "conjunctions": (2, 3, 2), "coverage": (0.15,)},
        {"literals": "paper", "probes": 20, "trees": 2000, "gini": 0.4},
    ),
    "paper, 12 + 24": (
        {"features": 12, "conjunctions": (2, 3, 2), "coverage": (0.15,)},
        {"literals": "paper", "probes": 24, "trees": 2000, "gini": 0.4},
    ),
    "paper, 200 + 200": (
        {"features": 200, "conjunctions": (2, 3, 2), "coverage": (0.15,), "imbalance": 0.7},
        {"literals": "paper", "probes": 200, "trees": 4000, "gini": 0.4, "min_samples": 30},
    ),
    "paper, XOR, 200 + 200": (
        {"features": 200, "xor": 1, "xor_share": 0.5},
        {"literals": "paper", "preset": "auto", "probes": 200, "trees": 1000, "gini": 0.4},
    ),
    "supported, 50 + 50": (
        {"features": 50, "conjunctions": (2, 3, 2), "coverage": (0.15,)},
        {"literals": "supported", "probes": 50, "trees": 2000, "gini": 0.4},
    ),
    "supported, 50 + 500": (
        {"features": 50, "conjunctions": (2, 3, 2), "coverage": (0.15,)},
        {"literals": "supported", "preset": "auto", "probes": 500, "trees": 2000, "gini": 0.4},
    ),
    "supported at 0.9, 50 + 50": (
        {"features": 50, "conjunctions": (2, 3, 2), "coverage": (0.15,)},
        {"literals": "supported", "significance": 0.9, "probes": 50, "trees": 2000, "gini": 0.5},
    ),
    "supported, XOR, 200 + 200": (
        {"features": 200, "conjunctions": (2, 3), "xor": 1},
        {"literals": "supported", "preset": "auto", "probes": 200, "trees": 1000, "gini": 0.4},
    ),
}


@dataclass(frozen=True)
class Trial:
    """One table."""

    case: str
    seed: int
    rules: int
    noisy: int
    """Rules with a noise column, in truth."""
    with_probe: int
    share: float
    low: float
    high: float

    @property
    def truth(self) -> float:
        return self.noisy / self.rules

    @property
    def held(self) -> bool:
        return self.low - 1e-9 <= self.truth <= self.high + 1e-9


def run(seeds: Iterable[int], cases: Iterable[str] = tuple(CASES)) -> list[Trial]:
    """All trials that published a rule."""
    seeds = tuple(seeds)
    trials = (trial(case, seed) for case in cases for seed in seeds)
    return [found for found in trials if found is not None]


def trial(case: str, seed: int) -> Trial | None:
    """One table, generated, mined and scored; None where no rule was published."""
    recipe, settings = CASES[case]
    table = generate(Recipe(rows=2000, seed=seed, **recipe))
    columns = prepare(table.frame, TableSettings(target="y")).columns
    result = mine(columns, MiningSettings(seed=seed, **settings))
    if not result.rules:
        return None
    rules = [MinedRule(rule.id, rule.conditions, result.classes[rule.label]) for rule in result.rules]
    noisy = score(rules, table.truth, fresh=0).totals["with_noise"]
    noise = result.noise
    return Trial(case, seed, len(rules), noisy, noise.with_probe, noise.share, noise.low, noise.high)


def show(trials: list[Trial]) -> None:
    print(f"{'literals, columns + probes':28}  tables  rules  noisy  with probe  estimate    interval  holds the truth")
    for case in dict.fromkeys(trial.case for trial in trials):
        of = [trial for trial in trials if trial.case == case]
        mean = {
            name: sum(getattr(trial, name) for trial in of) / len(of)
            for name in Trial.__annotations__
            if name != "case"
        }
        truth, held = sum(trial.truth for trial in of) / len(of), sum(trial.held for trial in of)
        print(
            f"{case:28}  {len(of):6}  {mean['rules']:5.1f}  {100 * truth:3.0f} %  {mean['with_probe']:10.1f}  "
            f"{100 * mean['share']:6.0f} %  {100 * mean['low']:3.0f}–{100 * mean['high']:3.0f} %  {held} of {len(of)}"
        )
    print(f"{'all':28}  {len(trials):6}{'':54}{sum(trial.held for trial in trials)} of {len(trials)}")


if __name__ == "__main__":
    show(run(range(int(sys.argv[1]) if len(sys.argv) > 1 else 20)))
