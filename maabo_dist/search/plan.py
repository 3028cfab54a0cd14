"""`SearchPlan`: the settings with defaults resolved for one table, and an estimate of the work.

The estimate is for users who are about to start a search. It leaves out what is unknown beforehand: how soon leaves
are pure, how many rules there are to choose from, and how fast the machines are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import comb
from typing import Any

from maabo_dist.data.split import MAX_TREE_ROWS, held_out_share
from maabo_dist.errors import SettingsError
from maabo_dist.screens.blocks import (
    MIN_ROWS_FOR_SIXTHS,
    MIN_ROWS_FOR_TENTHS,
    WORD,
    ScreenPlan,
    screen_seconds,
    triples_seconds,
)
from maabo_dist.search.limits import NO_LIMITS, SubsetLimits
from maabo_dist.settings import MAX_DEFAULT_TREES, MIN_DEFAULT_TREES, MiningSettings

# Up to this many subsets, all of them are candidates at every step unless set otherwise.
SMALL_SPACE = 20_000
MAX_ENUMERATION = 10_000_000
MAX_SEEDED = 300
TRIPLE = 3

# The cost of a tree itself, and of each training row of each of its features at each depth.
#
# From `make bench`: 36 µs for 916 rows and 325 µs for 14,000 rows, both with 3 features and depth 5.
SECONDS_PER_TREE, SECONDS_PER_CELL = 16e-6, 1.5e-9

# What a whole search takes on one core: for each leaf of a tree, each cell of its training rows and each further class,
# and for each batch and each candidate that is compared for it.
#
# Fitted to searches of 200 to 20,000 rows, 10 to 200 columns and 2 to 5 classes; most take 0.7 to 1.3 times as long.
REPEAT_SECONDS_PER_LEAF, REPEAT_SECONDS_PER_CELL = 1.5e-6, 3e-9
REPEAT_SECONDS_PER_STEP, REPEAT_SECONDS_PER_CANDIDATE = 0.5e-3, 0.2e-6
# For each pair that is screened, each of its classes, and each word of its rows. The kernel is faster by now; these
# stay as they are, because they decide what is certified.
REPEAT_SECONDS_PER_PAIR = (40e-9, 25e-9, 2.2e-9)
# Leaves of fewer training rows are rare.
ROWS_PER_LEAF = 5

# The fewest searches on shuffled labels that can certify a rule at the level that they have: 24 for 4 %.
MIN_SHUFFLES = 24
# Without a number from the user, they are run if they take about this long on one core, by the estimate below:
# measured time would make the result depend on the machine.
MAX_SHUFFLE_SECONDS = 6.0

# Without --complete, all triples are screened if that takes at most so long on one core, or no longer than the trees;
# in all, where searches on shuffled labels repeat it.
MAX_TRIPLE_SECONDS = 8.0

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
    # The columns that every subset has, and those of which it has one at most.
    limits: SubsetLimits = NO_LIMITS
    # True if the screens count all triples too.
    triples: bool = False
    # True if pairs are also counted at tenths of the rows, and triples at sixths: narrow rules are hidden at thirds.
    tenths: bool = False
    sixths: bool = False

    @property
    def sizes(self) -> tuple[int, ...]:
        """All sizes of subsets, ascending."""
        return (*self.smaller_sizes, self.subset_size)

    @property
    def screens(self) -> ScreenPlan:
        """What the screens count. They grow conjunctions of the sizes of which they do not count all sets."""
        counted = TRIPLE if self.triples else TRIPLE - 1
        grown = tuple(size for size in self.sizes if size > counted) if self.screened else ()
        return ScreenPlan(self.triples, self.tenths, self.sixths, grown)

    @classmethod
    def settle(
        cls,
        settings: MiningSettings,
        features: int,
        columns: Sequence[str] = (),
        *,
        rows: int = 0,
        classes: int = 2,
        rarest: int = 0,
        independent: bool = True,
    ) -> "SearchPlan":
        """Check the settings against the table and settle the open values.

        `columns` has the column of each feature, without the probes, which come last. `rows` and `classes` are those of
        the table, `rarest` are the rows of its rarest class, and `independent` is False if rows come in groups or have
        weights: they decide whether all triples are affordable, and at which cuts.
        """
        if settings.strategy == "single":
            return cls(features, features, 1, 1, 1, 1, 1, features, None)
        limits = SubsetLimits.resolve(settings, columns)
        sizes = _settle_subset_sizes(settings, features)
        counts = {size: count for size in sizes if (count := limits.count(features, size))}
        if not counts:
            raise SettingsError(_explain_empty_space(settings, features, limits))
        *smaller, size = counts
        space = sum(counts.values())
        trees, notes = _settle_trees(settings, space)
        # Screens help if subsets remain without a tree, and if there are pairs to screen.
        screened = settings.preset == "auto" and settings.strategy == "maabo" and trees < space and size >= 2
        plan = cls(
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
            limits=limits,
        )
        plan = replace(plan, triples=_screens_triples(plan, settings, rows, classes, independent=independent))
        trained = rarest * tree_rows(settings, rows) / max(1, rows)
        finer = replace(plan, tenths=screened and trained >= MIN_ROWS_FOR_TENTHS)
        if not finer.triples or trained < MIN_ROWS_FOR_SIXTHS:
            return finer
        return replace(finer, sixths=_affords_sixths(plan, settings, rows, classes, independent=independent))


def _screens_triples(plan: SearchPlan, settings: MiningSettings, rows: int, classes: int, *, independent: bool) -> bool:
    """True if all triples are to be screened. It depends on the table's size and the settings, never on a clock."""
    if not plan.screened or not rows or plan.subset_size < TRIPLE or settings.complete == "pairs":
        return False
    if settings.complete == "triples":
        return True
    seconds = triples_seconds(plan.features, round(tree_rows(settings, rows)), classes)
    repeats = 0 if independent else MIN_SHUFFLES
    if settings.certify not in {"auto", "off"}:
        repeats = int(settings.certify)
    trees = plan.trees * tree_seconds(plan, settings, rows=rows)
    if seconds > max(MAX_TRIPLE_SECONDS / (1 + repeats), trees):
        return False
    # Not at the expense of searches on shuffled labels, which repeat all of it.
    shuffles, fewer = (
        planned_shuffles(choice, settings, rows=rows, classes=classes, independent=independent)
        for choice in (plan, replace(plan, triples=True))
    )
    return fewer >= shuffles


def _affords_sixths(plan: SearchPlan, settings: MiningSettings, rows: int, classes: int, *, independent: bool) -> bool:
    """True if all triples can be counted a second time within the limits of the first."""
    if settings.complete == "triples":
        return True
    seconds = 2 * triples_seconds(plan.features, round(tree_rows(settings, rows)), classes)
    table: dict[str, Any] = {"rows": rows, "classes": classes, "independent": independent}
    shuffles, fewer = (planned_shuffles(choice, settings, **table) for choice in (plan, replace(plan, sixths=True)))
    affordable = max(MAX_TRIPLE_SECONDS / (1 + shuffles), plan.trees * tree_seconds(plan, settings, rows=rows))
    return seconds <= affordable and fewer >= shuffles


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


def _explain_empty_space(settings: MiningSettings, features: int, limits: SubsetLimits) -> str:
    possible = [size for size in range(1, features) if limits.count(features, size)]
    remedy = "name fewer columns"
    if possible:
        nearest = min(possible, key=lambda size: abs(size - settings.subset_sizes[-1]))
        remedy = f"give --subset-size {nearest}, or {remedy}"
    return f"No subset of {settings.subset_size} of the features meets --always and --one-of. {remedy.capitalize()}."


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
    trees = plan.trees * tree_seconds(plan, settings, rows=rows)
    return trees + _screen_seconds(plan, settings, rows, classes)


def tree_seconds(plan: SearchPlan, settings: MiningSettings, *, rows: int) -> float:
    """Estimate the time of one tree on one core."""
    return SECONDS_PER_TREE + SECONDS_PER_CELL * tree_rows(settings, rows) * plan.subset_size * settings.max_depth


def _screen_seconds(plan: SearchPlan, settings: MiningSettings, rows: int, classes: int) -> float:
    training = round(tree_rows(settings, rows))
    if not plan.screened:
        return 0.0
    seconds = screen_seconds(plan.features, training, classes, triples=plan.triples)
    return seconds + (triples_seconds(plan.features, training, classes) if plan.sixths else 0.0)


def repeat_seconds(plan: SearchPlan, settings: MiningSettings, *, rows: int, classes: int) -> float:
    """Estimate the time on one core of one whole search on shuffled labels, up to its strongest rules.

    It depends on the table's size and the settings alone, and never on a clock, because it decides what is certified.
    """
    training = tree_rows(settings, rows)
    cells = training * plan.subset_size * settings.max_depth
    leaves = min(2.0**settings.max_depth, max(1.0, training / ROWS_PER_LEAF))
    tree = REPEAT_SECONDS_PER_LEAF * leaves * (1 + (classes - 2) / 3) + REPEAT_SECONDS_PER_CELL * cells * (classes - 1)
    step = REPEAT_SECONDS_PER_STEP
    if settings.strategy == "maabo":
        step += REPEAT_SECONDS_PER_CANDIDATE * (plan.space_size if plan.candidates is None else plan.candidates)
    return plan.trees * tree + plan.trees / plan.batch * step + _repeat_screen_seconds(plan, settings, rows, classes)


def _repeat_screen_seconds(plan: SearchPlan, settings: MiningSettings, rows: int, classes: int) -> float:
    if not plan.screened:
        return 0.0
    training, (fixed, per_class, per_word) = round(tree_rows(settings, rows)), REPEAT_SECONDS_PER_PAIR
    pairs = comb(plan.features, 2) * (fixed + per_class * classes + per_word * (training / WORD + classes / 2))
    triples = triples_seconds(plan.features, training, classes) if plan.triples else 0.0
    return pairs + triples * (2 if plan.sixths else 1)


def tree_rows(settings: MiningSettings, rows: int) -> float:
    """Return the number of training rows that trees are grown on, of a table with so many rows."""
    training = rows * (1 - held_out_share(settings.holdout, rows)) * (1 - settings.test_size)
    return min(training, MAX_TREE_ROWS) if settings.publishes_findings else training


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
    seconds = MIN_SHUFFLES * repeat_seconds(plan, settings, rows=rows, classes=classes)
    return MIN_SHUFFLES if seconds <= MAX_SHUFFLE_SECONDS or not independent else 0


def round_trip_seconds(plan: SearchPlan) -> float:
    """Estimate the time that a cluster takes to send batches and receive their results; batches in flight overlap."""
    return SECONDS_PER_BATCH * plan.trees / (plan.batch * plan.in_flight)
