"""`SearchPlan`: the settings with defaults resolved for one table, an estimate of the work, and an explanation.

The estimate is for users who are about to start a search. It leaves out what is unknown beforehand: how soon leaves
are pure, how many rules there are to choose from, and how fast the machines are.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import comb

from maabo_dist.contract.wording import large_number
from maabo_dist.data.split import held_out_share
from maabo_dist.errors import SettingsError
from maabo_dist.screens.blocks import count_pairs, pair_seconds
from maabo_dist.settings import MAX_DEFAULT_TREES, MIN_DEFAULT_TREES, MiningSettings

# Up to this many subsets, all of them are candidates at every step unless set otherwise.
SMALL_SPACE = 20_000
MAX_ENUMERATION = 10_000_000
MAX_SEEDED = 300

# The cost of a tree itself, and of each training row of each of its features at each depth.
#
# From `make bench`: 36 µs for 916 rows and 325 µs for 14,000 rows, both with 3 features and depth 5.
SECONDS_PER_TREE, SECONDS_PER_CELL = 16e-6, 1.5e-9

# The fewest searches on shuffled labels that can certify a rule at the level that they have: 24 for 4 %.
MIN_SHUFFLES = 24
# Without a number from the user, they are run if they take about this long on one core, by the estimate below:
# measured time would make the result depend on the machine.
MAX_SHUFFLE_SECONDS = 6.0

# The time from one batch to the next on a cluster, in addition to growing its trees: `make bench-cluster`.
SECONDS_PER_BATCH = 11e-3


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """The settings with defaults resolved for a table of D features."""

    features: int
    # D′; the largest where there are several.
    subset_size: int
    space_size: int
    trees: int
    initial: int
    batch: int
    in_flight: int
    top_features: int
    # None compares all subsets not yet verified.
    candidates: int | None
    # True if screens choose initial subsets and candidates.
    screened: bool = False
    notes: tuple[str, ...] = ()
    # Further sizes of subsets, ascending.
    smaller_sizes: tuple[int, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """All sizes of subsets, ascending."""
        return (*self.smaller_sizes, self.subset_size)

    @classmethod
    def settle(cls, settings: MiningSettings, features: int) -> "SearchPlan":
        """Check the settings against the table and settle the open values."""
        if settings.strategy == "single":
            return cls(features, features, 1, 1, 1, 1, 1, features, None)
        *smaller, size = _settle_subset_sizes(settings, features)
        space = sum(comb(features, each) for each in (*smaller, size))
        trees, notes = _settle_trees(settings, space)
        # Screens help if subsets remain without a tree, and if there are pairs to screen.
        screened = settings.preset == "auto" and settings.strategy == "maabo" and trees < space and size >= 2
        return cls(
            features=features,
            subset_size=size,
            space_size=space,
            trees=trees,
            initial=min(_settle_initial(settings, trees, screened), trees),
            batch=settings.batch or min(256, max(1, trees // 50)),
            in_flight=settings.in_flight,
            top_features=_settle_top_features(settings.top_features, features, space),
            candidates=_settle_candidates(settings, space),
            screened=screened,
            notes=notes,
            smaller_sizes=tuple(smaller),
        )


def _settle_subset_sizes(settings: MiningSettings, features: int) -> tuple[int, ...]:
    """The sizes that are set; all sizes if the default does not fit a table of few features."""
    if settings.subset_sizes[-1] < features:
        return settings.subset_sizes
    is_default = settings.subset_size == MiningSettings.model_fields["subset_size"].default
    if settings.preset == "auto" and is_default and features >= 1:
        return tuple(range(1, features + 1))
    raise SettingsError(
        f"--subset-size {settings.subset_size} needs a table of more features than that; this one has {features}. "
        + ("Give a smaller --subset-size, or use --strategy single." if features > 1 else "Use --strategy single.")
    )


def _settle_initial(settings: MiningSettings, trees: int, screened: bool) -> int:
    """N_I; more if screens choose most of them, unless a number other than the default was set."""
    # By its value: a document does not record which fields were set, and a job must have one plan.
    if screened and settings.initial == MiningSettings.model_fields["initial"].default:
        return max(settings.initial, min(MAX_SEEDED, trees // 5))
    return settings.initial


def _settle_trees(settings: MiningSettings, space: int) -> tuple[int, tuple[str, ...]]:
    budget = settings.trees
    if budget is None and settings.strategy == "exhaustive":
        return _check_exhaustive(space), ()
    if budget is None:
        return min(space, max(MIN_DEFAULT_TREES, min(space // 2, MAX_DEFAULT_TREES))), ()
    if isinstance(budget, str):
        share = Fraction(budget.rstrip("%").strip())  # exact at any size of the space
        return max(1, space * share // 100), ()
    if budget > space:
        return space, (f"--trees {budget:,} is more than the {space:,} subsets of the space; all of them are grown.",)
    return budget, ()


def _check_exhaustive(space: int) -> int:
    if space <= MAX_ENUMERATION:
        return space
    raise SettingsError(
        f"--strategy exhaustive would grow a tree for each of {space:,} subsets; the most without --trees is "
        f"{MAX_ENUMERATION:,}. Give --trees, or use --strategy maabo."
    )


def _settle_top_features(requested: int | str | None, features: int, space: int) -> int:
    if requested == "all" or (requested is None and space <= SMALL_SPACE):
        return features
    if requested is None:
        return max(1, features // 5)
    if int(requested) > features:
        raise SettingsError(f"--top-features {requested} is more than the {features} features of the table; use all.")
    return int(requested)


def _settle_candidates(settings: MiningSettings, space: int) -> int | None:
    if settings.candidates is None:
        return None if space <= SMALL_SPACE else 1000
    if settings.candidates != "all":
        return int(settings.candidates)
    if space > MAX_ENUMERATION and settings.strategy == "maabo":
        raise SettingsError(
            f"--candidates all would compare {space:,} subsets at each step; "
            f"the maximum is {MAX_ENUMERATION:,}. Give a number, such as 1000."
        )
    return None


def core_seconds(plan: SearchPlan, settings: MiningSettings, *, rows: int, classes: int) -> float:
    """Estimate the time on one core for a table of this many rows and classes, before the split."""
    training = rows * (1 - held_out_share(settings.holdout, rows)) * (1 - settings.test_size)
    cells = training * plan.subset_size * settings.max_depth
    pairs = count_pairs(0, plan.features, plan.features) if plan.screened else 0
    trees = plan.trees * (SECONDS_PER_TREE + SECONDS_PER_CELL * cells)
    return trees + pairs * pair_seconds(round(training), classes)


def planned_shuffles(
    plan: SearchPlan, settings: MiningSettings, *, rows: int, classes: int, independent: bool = True
) -> int:
    """Return the number of searches on shuffled labels that certify rules, unless none of them has to.

    Where rows are not independent, nothing else certifies rules, whatever they cost.
    """
    if settings.certify == "off":
        return 0
    if settings.certify != "auto":
        return int(settings.certify)
    seconds = MIN_SHUFFLES * core_seconds(plan, settings, rows=rows, classes=classes)
    return MIN_SHUFFLES if seconds <= MAX_SHUFFLE_SECONDS or not independent else 0


def round_trip_seconds(plan: SearchPlan) -> float:
    """Estimate the time that a cluster takes to send batches and receive their results; batches in flight overlap."""
    return SECONDS_PER_BATCH * plan.trees / (plan.batch * plan.in_flight)


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
    `independent` is False if rows come in groups.
    """
    certification = _certification(plan, settings, rows, classes, independent)
    selection = (*_size(settings, min_rows), _literals(settings), *certification)
    if settings.strategy == "single":
        return (
            f"trees: 1 on all {plan.features:,} features (--strategy single)",
            *_probes(settings),
            *selection,
        )
    return (
        f"space: {large_number(plan.space_size)} subsets of {plan.subset_size} of the {plan.features:,} features",
        *_probes(settings),
        f"trees: {_trees(plan, settings)}",
        f"screens: {_screens(plan, settings)}",
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


def _screens(plan: SearchPlan, settings: MiningSettings) -> str:
    if plan.screened:
        return "single features and pairs, as there are more subsets than trees"
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
        yield _group_certification(plan, settings, rows, classes)
        return
    bound = "certification: a bound on the number of possible rules"
    if settings.certify == "off":
        yield f"{bound}, which costs nothing (--certify off)"
        return
    seconds = None if rows is None else core_seconds(plan, settings, rows=rows, classes=classes)
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


def _group_certification(plan: SearchPlan, settings: MiningSettings, rows: int | None, classes: int) -> str:
    if settings.certify == "off":
        return (
            "certification: a bound on the number of possible rules, with as many rows as the groups are worth; an "
            "approximation (--certify off)"
        )
    shuffles = planned_shuffles(plan, settings, rows=rows or 0, classes=classes, independent=False)
    seconds = None if rows is None else core_seconds(plan, settings, rows=rows, classes=classes)
    cost = "" if seconds is None else f", some {_seconds(shuffles * seconds)} on one core"
    why = "as rows come in groups" if settings.certify == "auto" else "--certify"
    return f"certification: {shuffles:,} searches in which whole groups exchange their labels{cost} ({why})"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:,.0f} s"


def _percent(share: float) -> str:
    return f"{100 * share:g} %"
