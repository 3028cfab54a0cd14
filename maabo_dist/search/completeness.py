"""`describe_completeness`: what a search counted completely, and what it sampled."""

from math import comb

from maabo_dist.contract.result import Completeness
from maabo_dist.contract.wording import large_number
from maabo_dist.search.plan import TRIPLE, SearchPlan
from maabo_dist.settings import MiningSettings

# Each feature is cut into so many levels for screens, near the thirds of its training rows.
LEVELS = 3


def describe_completeness(plan: SearchPlan, settings: MiningSettings, trees: int) -> Completeness:
    """Describe a search that grew `trees` trees."""
    pairs = comb(plan.features, 2) if plan.screened else 0
    triples = comb(plan.features, TRIPLE) if plan.triples else 0
    statement = _describe_trees(plan, settings, trees)
    if plan.screened:
        counted = f"all {large_number(pairs)} pairs"
        if triples:
            counted += f" and all {large_number(triples)} triples"
        statement = f"{counted} of features were counted, at {LEVELS} levels a feature; {statement}"
        statement = statement[0].upper() + statement[1:]
    return Completeness(pairs=pairs, triples=triples, all_subsets=trees == plan.space_size, statement=statement)


def _describe_trees(plan: SearchPlan, settings: MiningSettings, trees: int) -> str:
    if settings.strategy == "single":
        return "One tree was grown on all features; no subsets were searched."
    size = f"{plan.sizes[0]} to {plan.sizes[-1]}" if plan.smaller_sizes else f"{plan.subset_size}"
    subsets = f"subsets of {size} features"
    if trees == plan.space_size:
        return f"A tree was grown on each of the {large_number(trees)} {subsets}."
    grown = "trees were" if plan.screened else "Trees were"
    if trees == 1:
        grown = grown.replace("s were", " was")
    among = f"{trees:,} of the {large_number(plan.space_size)} {subsets}"
    most = ", the strongest triples first" if plan.triples else ""
    return f"{grown} grown on {among}{most}."
