"""Sentences about a result document as a whole, which the terminal report and the page share."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from maabo_dist.report.document import Document
from maabo_dist.report.wording import large_number


class FunnelStep(NamedTuple):
    """A sieve: its key in the funnel, its name, and what passes it."""

    key: str
    label: str
    meaning: str = ""


def funnel_steps(document: Document) -> list[FunnelStep]:
    """The sieves from leaves to rules; that of support where conditions had to be supported."""
    settings = document["settings"]
    supported = FunnelStep("supported", "supported", "reliable on what the rows support")
    return [
        FunnelStep("leaves", "leaves of all trees"),
        FunnelStep("large", "large enough", f"at least {settings['min_samples']:,} training rows"),
        FunnelStep("pure", "pure enough", f"Gini below {settings['gini']:g} of the greatest"),
        FunnelStep("distinct", "distinct", "the best leaf of each set of conditions"),
        *([supported] if document["dropping"] else []),
        FunnelStep("rules", "rules", f"dissimilar: similarity below {settings['similarity']:g}"),
    ]


def rows_text(dataset: Mapping[str, Any]) -> str:
    """`569 = 398 training + 171 validation`."""
    parts = dataset["parts"]
    held = f" + {parts['holdout']:,} held out" if parts["holdout"] else ""
    return f"{dataset['rows']:,} = {parts['train']:,} training + {parts['validation']:,} validation{held}"


def space_text(space: Mapping[str, Any], probes: int) -> str:
    """D, D′ and the number of subsets."""
    size, each = large_number(space["size"]), str(space["subset_size"]).replace("-", "–")
    held = f" ({probes:,} of them probes)" if probes else ""
    return f"D = {space['features']:,} features{held}, D′ = {each} a tree, |Ω| = {size} subsets"


def search_text(search: Mapping[str, Any], size: int, seed: int) -> str:
    """Trees, their share of the space, time, strategy, seed and the best score."""
    best = "–" if search["best_score"] is None else f"{search['best_score']:.3f}"
    trees = f"{search['trees']:,} tree{'' if search['trees'] == 1 else 's'}"
    return (
        f"{trees} ({share_text(search['trees'], size)} of the space) in {search['seconds']:.1f} s, "
        f"{search['strategy']}, seed {seed}, best F1 {best}"
    )


def dropping_text(dropping: Mapping[str, Any], level: float) -> str:
    """What had no support."""
    conditions = f"{dropping['conditions']:,} condition{'' if dropping['conditions'] == 1 else 's'}"
    leaves = f"{dropping['leaves']:,} {'leaf' if dropping['leaves'] == 1 else 'leaves'}"
    return f"{conditions} without support (p > {level:g}), {leaves} not reliable without theirs"


def noise_text(noise: Mapping[str, Any]) -> str:
    """What the probes say."""
    used = f"{noise['with_probe']:,} of {noise['rules']:,} use{'s' if noise['with_probe'] == 1 else ''} one"
    if noise["share"] is None:
        return f"{noise['probes']:,} probes ({used})"
    low, high = (f"{100 * noise[end]:.0f}" for end in ("low", "high"))
    share = f"{low} %" if low == high else f"{low}–{high} %"
    return f"{noise['probes']:,} probes say that {share} of these rules are chance ({used})"


def repeats_text(repeats: Mapping[str, Any]) -> str:
    """How many repeats there were, and what came back."""
    if not repeats["done"]:
        return "none was done"
    own = sum(entry["rule"] is not None for entry in repeats["consensus"])
    others = len(repeats["consensus"]) - own
    return (
        f"{repeats['done']:,}, on {repeats['rows']:,} rows each; {own:,} of these rules, and {others:,} "
        f"other{'' if others == 1 else 's'}, come back in {100 * repeats['threshold']:g} % of them"
    )


def share_text(part: int, whole: int) -> str:
    """A percentage; `< 0.01 %` where there is hardly anything."""
    percent = 100 * part / whole
    if part and percent < 0.01:
        return "< 0.01 %"
    return f"{percent:.{0 if percent in {0, 100} or percent >= 10 else 2}f} %"


def returns_text(stability: Mapping[str, Any]) -> str:
    """`9/10`: repeats in which the rule came back."""
    return f"{stability['returns']:,}/{stability['repeats']:,}" if stability["repeats"] else "–"


def q_text(q: float) -> str:
    """`= 0.012`, `< 0.001`."""
    return "< 0.001" if q < 0.001 else f"= {q:.3f}"


def funnel_texts(funnel: Mapping[str, Any]) -> list[str]:
    """From all leaves to the rules: what each sieve left."""
    return [
        f"{funnel['leaves']:,} leaves",
        f"{funnel['large']:,} large enough",
        f"{funnel['pure']:,} pure enough",
        f"{funnel['distinct']:,} distinct",
        *([f"{funnel['supported']:,} supported"] if funnel["supported"] != funnel["distinct"] else []),
        f"{funnel['rules']:,} rule{'' if funnel['rules'] == 1 else 's'}",
    ]


def no_rules_reason(document: Document) -> str:
    """Which sieve let nothing through, and the option that opens it."""
    funnel, settings = document["funnel"], document["settings"]
    if not funnel["leaves"]:
        return "No tree was grown."
    if not funnel["large"]:
        return f"No leaf holds {settings['min_samples']:,} training rows. Try a smaller --min-samples."
    if not funnel["pure"]:
        return f"No large leaf is pure at --gini {settings['gini']:g}. Try a larger --gini or a smaller --min-samples."
    if not funnel["supported"]:
        return (
            f"The rows support no rule at --significance {settings['significance']:g}. "
            "Try a larger one, or --literals paper."
        )
    if (document.get("noise") or {}).get("with_probe"):
        return "Every reliable leaf uses a probe: on this table the settings find nothing but chance."
    return "The only reliable leaf is that of all rows."
