"""`explain_plan`: the choices that were made for a search, in words, for `--explain` and the result document."""

from collections.abc import Iterator
from math import comb

from maabo_dist.contract.wording import large_number
from maabo_dist.data.split import MAX_TREE_ROWS
from maabo_dist.screens.blocks import triples_seconds
from maabo_dist.search.completeness import describe_levels
from maabo_dist.search.plan import (
    MAX_SEEDED,
    MIN_SHUFFLES,
    TRIPLE,
    SearchPlan,
    planned_shuffles,
    repeat_seconds,
    tree_rows,
)
from maabo_dist.settings import MAX_DEFAULT_TREES, MIN_DEFAULT_TREES, MiningSettings


def explain_plan(
    plan: SearchPlan,
    settings: MiningSettings,
    *,
    rows: int | None = None,
    classes: int = 2,
    min_rows: int | None = None,
    independent: bool = True,
) -> tuple[str, ...]:
    """Return one line for each choice, in the order of the search.

    `rows` and `classes` are those of the table, `min_rows` the fewest training rows of a rule, where they are known.
    `independent` is False if rows come in groups or have sampling weights.
    """
    certification = _certification(plan, settings, rows, classes, independent)
    selection = (*_size(settings, min_rows), _literals(settings), *certification)
    if settings.strategy == "single":
        return (
            f"trees: 1 on all {plan.features:,} features (--strategy single)",
            *_sample(settings, rows),
            *_probes(settings),
            *selection,
        )
    return (
        f"space: {large_number(plan.space_size)} subsets of {plan.subset_size} of the {plan.features:,} features",
        *plan.limits.explain(settings),
        *_probes(settings),
        f"trees: {_trees(plan, settings)}",
        *_sample(settings, rows),
        f"screens: {_screens(plan, settings, rows, classes)}",
        *_guided(plan, settings),
        f"batch: {_batch(plan, settings)}",
        *selection,
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


def _sample(settings: MiningSettings, rows: int | None) -> Iterator[str]:
    if rows is not None and settings.publishes_findings and tree_rows(settings, rows) == MAX_TREE_ROWS:
        yield f"rows: trees are grown on {MAX_TREE_ROWS:,} random training rows; the evidence is counted on all rows"


def _triples(plan: SearchPlan, settings: MiningSettings, rows: int | None, classes: int) -> str:
    """The choice for triples, and what it is based on."""
    if plan.subset_size < TRIPLE or rows is None:
        return ""
    seconds = triples_seconds(plan.features, round(tree_rows(settings, rows)), classes)
    cost = f"{large_number(comb(plan.features, TRIPLE))} triples"
    if seconds >= 0.1:
        cost += f", some {_seconds(seconds)} on one core"
    if settings.complete != "auto":
        return f" and all {cost} (--complete)" if plan.triples else " (--complete pairs)"
    if plan.triples:
        return f" and all {cost}"
    return f", not all {cost}, longer than the search (--complete triples counts them)"


def _screens(plan: SearchPlan, settings: MiningSettings, rows: int | None, classes: int) -> str:
    if plan.screened:
        tails = f", {describe_levels(plan)}" if plan.tenths else ""
        return (
            f"single features and pairs{_triples(plan, settings, rows, classes)}{tails}, as there are more subsets "
            "than trees"
        )
    if settings.preset != "auto":
        return f"none, as --preset {settings.preset} has none"
    if settings.strategy != "maabo":
        return f"none, as --strategy {settings.strategy} is not guided"
    if plan.trees == plan.space_size:
        return "none, as every subset gets a tree"
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
    size = "small" if plan.candidates is None else "large"
    why = f"the space is {size}" if settings.candidates is None else "--candidates"
    if plan.candidates is None:
        return f"all subsets not yet grown are compared at each step ({why})"
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


def _size(settings: MiningSettings, min_rows: int | None) -> Iterator[str]:
    if not settings.publishes_findings:
        return
    if settings.min_samples is not None and settings.min_samples >= (min_rows or 1):
        yield f"size: a rule covers at least {settings.min_samples:,} training rows (--min-samples)"
    elif min_rows is not None:
        yield f"size: a rule covers at least {min_rows:,} training rows; fewer could hardly be certified in this table"
    else:
        yield "size: a rule covers at least as many rows as a certificate needs in this table"


def _certification(
    plan: SearchPlan, settings: MiningSettings, rows: int | None, classes: int, independent: bool
) -> Iterator[str]:
    if not settings.publishes_findings:
        return
    if not independent:
        yield _certification_by_shuffles(plan, settings, rows, classes)
        return
    bound = "certification: a bound on the number of possible rules"
    if settings.certify == "off":
        yield f"{bound}, which costs nothing (--certify off)"
        return
    seconds = None if rows is None else repeat_seconds(plan, settings, rows=rows, classes=classes)
    shuffles = MIN_SHUFFLES if rows is None else planned_shuffles(plan, settings, rows=rows, classes=classes)
    if not shuffles:
        cost = _seconds(MIN_SHUFFLES * (seconds or 0))
        yield (
            f"{bound} alone, as {MIN_SHUFFLES} searches on shuffled labels would take some {cost} on one core; "
            f"--certify {MIN_SHUFFLES} runs them"
        )
        return
    cost = "" if seconds is None else f", some {_seconds(shuffles * seconds)} on one core"
    searches = f"{shuffles:,} searches on shuffled labels{cost}"
    if settings.certify == "auto":
        yield f"{bound}; then {searches}, if it leaves rules undecided (--certify auto)"
    else:
        yield f"{bound}, and {searches} (--certify)"


def _certification_by_shuffles(plan: SearchPlan, settings: MiningSettings, rows: int | None, classes: int) -> str:
    if settings.certify == "off":
        return (
            "certification: a bound on the number of possible rules, applied to the effective number of rows; an "
            "approximation (--certify off)"
        )
    shuffles = planned_shuffles(plan, settings, rows=rows or 0, classes=classes, independent=False)
    seconds = None if rows is None else repeat_seconds(plan, settings, rows=rows, classes=classes)
    cost = "" if seconds is None else f", some {_seconds(shuffles * seconds)} on one core"
    why = "as rows come in groups or have weights" if settings.certify == "auto" else "--certify"
    return f"certification: {shuffles:,} searches on shuffled labels{cost} ({why})"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:,.0f} s"


def _percent(share: float) -> str:
    return f"{100 * share:g} %"
