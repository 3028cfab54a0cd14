"""`describe_completeness`: what a search counted completely, and what it sampled."""

from math import comb

from maabo_dist.contract.result import Completeness
from maabo_dist.contract.wording import large_number
from maabo_dist.search.plan import TRIPLE, SearchPlan
from maabo_dist.settings import MiningSettings

# Each feature is cut into so many levels for screens, near the thirds of its training rows.
LEVELS = 3
NO_OTHER = "No triple without a tree reaches the weakest published finding at these levels."
OTHERS = "Triples without a tree may be as strong as the weakest published finding."


def describe_completeness(
    plan: SearchPlan, settings: MiningSettings, trees: int, no_other_triple: bool | None = None
) -> Completeness:
    """Describe a search that grew `trees` trees; `no_other_triple` is that of `Completeness`."""
    pairs = comb(plan.features, 2) if plan.screened else 0
    triples = comb(plan.features, TRIPLE) if plan.triples else 0
    statement = _describe_trees(plan, settings, trees)
    if plan.screened:
        counted = f"all {large_number(pairs)} pairs"
        if triples:
            counted += f" and all {large_number(triples)} triples"
        statement = f"{counted} of features were counted, {describe_levels(plan)}; {statement}"
        statement = statement[0].upper() + statement[1:]
    if no_other_triple is not None:
        statement += f" {NO_OTHER if no_other_triple else OTHERS}"
    return Completeness(
        pairs=pairs,
        triples=triples,
        no_other_triple=no_other_triple,
        all_subsets=trees == plan.space_size,
        statement=statement,
    )


def describe_levels(plan: SearchPlan) -> str:
    """Say at which cuts the screens count."""
    text = f"at {LEVELS} levels a feature"
    if plan.tenths and (plan.sixths or not plan.triples):
        return f"{text} and again in the tails"
    return f"{text}, pairs again in the tails" if plan.tenths else text


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
