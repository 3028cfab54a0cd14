"""Explanations of a search plan: what was chosen for a table, and why."""

from collections.abc import Iterator

from maabo_dist.report.wording import large_number
from maabo_dist.search.plan import MAX_SEEDED, SMALL_SPACE, SearchPlan
from maabo_dist.settings import MAX_DEFAULT_TREES, MIN_DEFAULT_TREES, MiningSettings


def explain_plan(plan: SearchPlan, settings: MiningSettings) -> tuple[str, ...]:
    """Return one line for each choice, in the order of the search."""
    if settings.strategy == "single":
        return (
            f"trees: 1 on all {plan.features:,} features (--strategy single)",
            *_probes(settings),
            _literals(settings),
        )
    return (
        f"space: {large_number(plan.space_size)} subsets of {plan.subset_size} of the {plan.features:,} features",
        *_probes(settings),
        f"trees: {_trees(plan, settings)}",
        f"screens: {_screens(plan, settings)}",
        *_guided(plan, settings),
        f"batch: {_batch(plan, settings)}",
        _literals(settings),
    )


def _probes(settings: MiningSettings) -> Iterator[str]:
    if settings.probes:
        yield f"probes: {settings.probes:,} of the features are permuted columns (--probes)"


def _trees(plan: SearchPlan, settings: MiningSettings) -> str:
    trees = f"{plan.trees:,}"
    if isinstance(settings.trees, str):
        return f"{trees}, {settings.trees} of the space (--trees)"
    if plan.trees == plan.space_size:
        why = "no more than this are grown by default" if settings.trees is None else "--trees asks for as many or more"
        return f"{trees}, all of the space: {why}"
    if settings.trees is not None:
        return f"{trees} (--trees)"
    bounds = {MIN_DEFAULT_TREES: "the default minimum", MAX_DEFAULT_TREES: "the default maximum"}
    return f"{trees}, {bounds.get(plan.trees, 'half of the space')}"


def _screens(plan: SearchPlan, settings: MiningSettings) -> str:
    if plan.screened:
        return f"single features and pairs, as the space is too large to cover (more than {SMALL_SPACE:,} subsets)"
    if settings.preset != "auto":
        return f"none, as --preset {settings.preset} has none"
    if settings.strategy != "maabo":
        return f"none, as --strategy {settings.strategy} is not guided"
    if plan.space_size <= SMALL_SPACE:
        return f"none, as the space can be covered (at most {SMALL_SPACE:,} subsets)"
    return "none, as a tree of one feature has no pairs"


def _guided(plan: SearchPlan, settings: MiningSettings) -> Iterator[str]:
    """The choices of a guided search."""
    if settings.strategy != "maabo":
        yield f"order: {'at random' if settings.strategy == 'random' else 'one after another'}, not guided by scores"
        return
    yield f"initial: {_initial(plan, settings)}"
    yield f"top features: {_top_features(plan, settings)}"
    yield f"candidates: {_candidates(plan, settings)}"


def _initial(plan: SearchPlan, settings: MiningSettings) -> str:
    if not plan.screened:
        return f"{plan.initial:,} random trees before scores guide the search (--initial)"
    more = "" if plan.initial <= settings.initial else f" (a fifth of all, at most {MAX_SEEDED})"
    return (
        f"{plan.initial:,} trees before scores guide the search{more}; "
        f"{_percent(settings.seeded)} of them from the screens, the others at random"
    )


def _top_features(plan: SearchPlan, settings: MiningSettings) -> str:
    if plan.top_features == plan.features:
        why = "the space is small" if settings.top_features is None else "--top-features"
        return f"candidates may hold any features ({why})"
    why = "a fifth of all, as the space is large" if settings.top_features is None else "--top-features"
    return f"candidates hold at least one of the {plan.top_features:,} most used features ({why})"


def _candidates(plan: SearchPlan, settings: MiningSettings) -> str:
    given = settings.candidates is not None
    if plan.candidates is None:
        return (
            f"all subsets not yet grown are compared at each step ({'--candidates' if given else 'the space is small'})"
        )
    why = "--candidates" if given else "the space is large"
    mixed = (
        f"; {_percent(settings.neighbours)} of them are neighbours of good subsets, "
        f"{_percent(settings.completions)} complete promising pairs"
    )
    return f"{plan.candidates:,} subsets are compared at each step ({why}){mixed if plan.screened else ''}"


def _batch(plan: SearchPlan, settings: MiningSettings) -> str:
    why = "1 for each 50 trees, at most 256" if settings.batch is None else "--batch"
    together = "subset is" if plan.batch == 1 else "subsets are"
    batches = "1 batch" if plan.in_flight == 1 else f"{plan.in_flight:,} batches"
    return f"{plan.batch:,} {together} proposed at a time ({why}), at most {batches} in flight"


def _literals(settings: MiningSettings) -> str:
    why = f"as --preset {settings.preset} does" if settings.literals is None else "--literals"
    if settings.prunes:
        return f"conditions: kept only if the rows support them at p ≤ {settings.significance:g} ({why})"
    return f"conditions: all are kept ({why})"


def _percent(share: float) -> str:
    return f"{100 * share:g} %"
