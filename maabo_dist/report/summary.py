"""Sentences about a result document as a whole, for all reports."""

from collections.abc import Sequence
from typing import NamedTuple

from maabo_dist._util.text import format_count
from maabo_dist.contract.reasons import limits_text
from maabo_dist.contract.result import DatasetInfo, ResultDocument, SearchInfo, SpaceInfo
from maabo_dist.contract.rules import RepeatsRecord, RuleRecord, StabilityRecord, Verdict
from maabo_dist.contract.selection import CertificateInfo, DroppingInfo, FunnelCounts, NoiseInfo
from maabo_dist.contract.wording import also_text, large_number
from maabo_dist.rules.rule import Rule
from maabo_dist.settings import PAPER_LIMITS

# Above the findings that failed on held-out rows.
FAILED_HEADING = "Did not hold up on unseen rows"
TENTATIVE = "certified, but with so little evidence to spare that a smaller sample may not confirm it"


class FunnelStep(NamedTuple):
    """A filter: its key in the funnel, its name, what passes it, and how many leaves did."""

    key: str
    label: str
    meaning: str
    leaves: int


def funnel_steps(document: ResultDocument) -> list[FunnelStep]:
    """Return the filters from leaves to rules; that of support only where conditions had to be supported."""
    settings, funnel = document.settings, document.funnel
    leaves = FunnelStep("leaves", "leaves of all trees", "", funnel.leaves)
    if funnel.certified is not None:
        return [
            leaves,
            FunnelStep("large", "large enough", "enough training rows to be certified", funnel.large),
            FunnelStep("distinct", "distinct", "one leaf of each set of conditions and thresholds", funnel.distinct),
            FunnelStep("supported", "supported", "rules in which the rows support each condition", funnel.supported),
            FunnelStep("certified", "certified", "rules that chance does not explain", funnel.certified),
            FunnelStep("rules", "findings", "certified rules on different rows", funnel.rules),
        ]
    supported = FunnelStep("supported", "supported", "reliable on what the rows support", funnel.supported)
    rows, gini = _limit(document, "min_samples"), _limit(document, "gini")
    return [
        leaves,
        FunnelStep("large", "large enough", f"at least {rows:,} training rows", funnel.large),
        FunnelStep("pure", "pure enough", f"Gini below {gini:g} of the greatest", funnel.pure),
        FunnelStep("distinct", "distinct", "the best leaf of each set of conditions", funnel.distinct),
        *([supported] if document.dropping else []),
        FunnelStep("rules", "rules", f"dissimilar: similarity below {settings['similarity']:g}", funnel.rules),
    ]


def _limit(document: ResultDocument, name: str) -> float:
    """Return a limit of GS-MRM: the paper's, unless another one was set."""
    value = document.settings[name]
    return value if isinstance(value, int | float) else PAPER_LIMITS[name]


def rows_text(dataset: DatasetInfo) -> str:
    """`569 = 398 training + 171 validation`."""
    parts = dataset.parts
    holdout = f" + {parts.holdout:,} held out" if parts.holdout else ""
    return f"{dataset.rows:,} = {parts.train:,} training + {parts.validation:,} validation{holdout}"


def space_text(space: SpaceInfo, probes: int) -> str:
    """D, D′ and the number of subsets."""
    included = f" ({probes:,} of them probes)" if probes else ""
    size = large_number(space.size)
    return f"D = {space.features:,} features{included}, D′ = {subset_size_text(space)} per tree, |Ω| = {size} subsets"


def subset_size_text(space: SpaceInfo) -> str:
    """`3`, or a range: `2–4`."""
    return str(space.subset_size).replace("-", "–")


def search_text(document: ResultDocument) -> str:
    """Trees, their share of the space, time, strategy, seed and the best score."""
    search = document.search
    share = share_text(search.trees, document.space.size)
    return (
        f"{format_count(search.trees, 'tree')} ({share} of the space) in {search.seconds:.1f} s, "
        f"{search.strategy}, seed {document.settings['seed']}, best F1 {best_score_text(search)}"
    )


def best_score_text(search: SearchInfo) -> str:
    """Three decimals; a dash without trees."""
    return "–" if search.best_score is None else f"{search.best_score:.3f}"


def outcome_texts(document: ResultDocument) -> dict[str, str]:
    """Return the certificate, the effect of pruning, the estimate of noise and the outcome of the repeats, if any."""
    texts = {}
    if document.certificate:
        texts["certified"] = certificate_text(document.certificate)
        if any(verdict_text(rule) == "tentative" for rule in document.rules):
            texts["tentative"] = TENTATIVE
    if document.dropping:
        texts["dropped"] = dropping_text(document.dropping, document.settings["significance"])
    if document.noise:
        texts["noise"] = noise_text(document.noise)
    if document.repeats:
        texts["repeats"] = repeats_text(document.repeats)
    return texts


def certificate_text(certificate: CertificateInfo) -> str:
    """Return how rules were certified: by a bound, or by searches on shuffled labels."""
    method = "a bound on the number of possible rules"
    if certificate.approximate_bound:
        method = "an approximate bound on the number of possible rules"
    if certificate.shuffles:
        searches = f"{certificate.shuffles:,} search{'' if certificate.shuffles == 1 else 'es'}"
        if certificate.shuffles < certificate.planned and not certificate.approximate_bound:
            method = f"{method}; {searches} on shuffled labels ({certificate.seconds:.1f} s) could add none"
        else:
            method = f"{searches} on shuffled labels ({certificate.seconds:.1f} s)"
    return f"adjusted p ≤ {certificate.level:g} by {method}"


def dropping_text(dropping: DroppingInfo, level: float) -> str:
    """Return the number of conditions and leaves dropped for lack of support."""
    conditions = format_count(dropping.conditions, "unsupported condition")
    leaves = f"{dropping.leaves:,} {'leaf' if dropping.leaves == 1 else 'leaves'}"
    return f"{conditions} (p > {level:g}), {leaves} unreliable without such conditions"


def noise_text(noise: NoiseInfo) -> str:
    """The estimate from probes."""
    used = f"{noise.with_probe:,} of {noise.rules:,} use{'s' if noise.with_probe == 1 else ''} one"
    if noise.share is None or noise.low is None or noise.high is None:
        return f"{noise.probes:,} probes ({used})"
    low, high = (f"{100 * end:.0f}" for end in (noise.low, noise.high))
    share = f"{low} %" if low == high else f"{low}–{high} %"
    return f"{share} of these rules are due to chance, estimated from {noise.probes:,} probes ({used})"


def repeats_text(repeats: RepeatsRecord) -> str:
    """Return the number of repeats, and of rules that they found again."""
    if not repeats.done:
        return "none was completed"
    own = sum(entry.rule is not None for entry in repeats.consensus)
    others = format_count(len(repeats.consensus) - own, "other")
    return (
        f"{repeats.done:,}, on {repeats.rows:,} rows each; {own:,} of these rules, and {others}, "
        f"come back in at least {100 * repeats.threshold:g} % of them: the same class, and at least "
        f"{100 * repeats.same_rows:g} % of the rows shared"
    )


def share_text(part: int, whole: int) -> str:
    """A percentage; `< 0.01 %` where there is hardly anything."""
    percent = 100 * part / whole
    if part and percent < 0.01:
        return "< 0.01 %"
    return f"{percent:.{0 if percent in {0, 100} or percent >= 10 else 2}f} %"


def returns_text(stability: StabilityRecord | None) -> str:
    """`9/10`: repeats that found the rule again."""
    return f"{stability.returns:,}/{stability.repeats:,}" if stability and stability.repeats else "–"


def two_decimals(value: float | None) -> str:
    """`0.93`; a dash where there is no number."""
    return "–" if value is None else f"{value:.2f}"


def q_text(q: float) -> str:
    """`= 0.012`, `< 0.001`."""
    return "< 0.001" if q < 0.001 else f"= {q:.3f}"


def p_value_text(p: float) -> str:
    """`0.012`, `< 0.001`."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def adjusted_p_text(rule: RuleRecord) -> str:
    """The p-value that is adjusted for the whole search; a dash for a rule without a certificate."""
    return "–" if rule.certificate is None else p_value_text(rule.certificate.p)


def verdict_text(rule: RuleRecord | Rule) -> str:
    """`held up`; `tentative` in place of `not tested` where there is little evidence to spare."""
    tentative = rule.certificate is not None and rule.certificate.tentative
    return "tentative" if tentative and rule.verdict is Verdict.NOT_TESTED else rule.verdict.value


def evidence_text(rule: RuleRecord) -> str:
    """`held-out rows: 47, precision 0.957, held up, adjusted p < 0.001`."""
    rows, n, precision = "mined rows", rule.mined_n, rule.mined_precision
    if rule.holdout:
        rows, n, precision = "held-out rows", rule.holdout.n, rule.holdout.precision
    texts = [f"{rows}: {n}" + ("" if precision is None else f", precision {precision:.3f}"), verdict_text(rule)]
    if rule.certificate:
        p = rule.certificate.p
        texts.append(f"adjusted p {'' if p < 0.001 else '= '}{p_value_text(p)}")
    return ", ".join(texts)  # no semicolon: people split SQL there


def split_failed(document: ResultDocument) -> tuple[list[RuleRecord], list[RuleRecord]]:
    """Return the rules, and the findings that failed on held-out rows apart from them."""
    failed = [rule for rule in document.rules if document.lists_findings and rule.verdict is Verdict.FAILED]
    return [rule for rule in document.rules if rule not in failed], failed


def with_failed_heading(parts: Sequence[str], document: ResultDocument, heading: str) -> list[str]:
    """The texts of the rules and of those that failed, with a heading before the latter; neither if it is empty."""
    passed, failed = (bool(rules) for rules in split_failed(document))
    return [*([parts[0]] if passed else []), *([heading.format(FAILED_HEADING) + parts[1]] if failed else [])]


def also_seen_text(rule: RuleRecord) -> str | None:
    """Other wordings of a finding in one line; None for rules of GS-MRM, and where there are none."""
    return also_text(rule.stand_ins, rule.displaced, rule.displaced_total) if rule.certificate else None


def funnel_texts(funnel: FunnelCounts) -> list[str]:
    """Return the leaves left after each filter, from all leaves to the rules."""
    if funnel.certified is not None:
        return [
            f"{funnel.leaves:,} leaves",
            f"{funnel.large:,} large enough",
            f"{funnel.distinct:,} distinct",
            f"{funnel.supported:,} supported",
            f"{funnel.certified:,} certified",
            format_count(funnel.rules, "finding"),
        ]
    return [
        f"{funnel.leaves:,} leaves",
        f"{funnel.large:,} large enough",
        f"{funnel.pure:,} pure enough",
        f"{funnel.distinct:,} distinct",
        *([f"{funnel.supported:,} supported"] if funnel.supported != funnel.distinct else []),
        format_count(funnel.rules, "rule"),
    ]


def no_rules_texts(document: ResultDocument) -> list[tuple[str, str]]:
    """Return a title and the reason where a document has no rules; nothing otherwise."""
    if document.rules:
        return []
    return [("No findings." if document.lists_findings else "No rules.", document.no_rules_reason or "")]


def no_rules_reason(document: ResultDocument) -> str:
    """Name the filter that let nothing through, and the option that relaxes it."""
    funnel = document.funnel
    if not funnel.leaves:
        return "No tree was grown."
    if funnel.certified is not None:
        return _no_findings_reason(document, funnel.certified)
    return _no_reliable_rules_reason(document)


def _no_reliable_rules_reason(document: ResultDocument) -> str:
    """Say which filter of GS-MRM let nothing through."""
    funnel, settings = document.funnel, document.settings
    if not funnel.large:
        return f"No leaf has {_limit(document, 'min_samples'):,} training rows. Try a smaller --min-samples."
    if not funnel.pure:
        gini = _limit(document, "gini")
        return f"No large leaf is pure at --gini {gini:g}. Try a larger --gini or a smaller --min-samples."
    if not funnel.supported:
        return (
            f"The rows support no rule at --significance {settings['significance']:g}. "
            "Try a larger one, or --literals paper."
        )
    if document.noise and document.noise.with_probe:
        return "Every reliable leaf uses a probe: these settings find nothing but chance in this table."
    return "The only reliable leaf covers all rows."


def _no_findings_reason(document: ResultDocument, certified: int) -> str:
    """Say why no rule is certified, or which options exclude those that are."""
    funnel, settings = document.funnel, document.settings
    if certified:
        rules = "1 certified rule was" if certified == 1 else f"{certified:,} certified rules were"
        limits = limits_text(settings)
        return (
            f"{rules} left out by {limits}." if limits else "No certified rule is much more precise than the base rate."
        )
    if not funnel.large:
        return "No leaf has enough training rows to be certified."
    if not funnel.distinct:
        return "No leaf favours a class."
    if not funnel.supported:
        return (
            f"Chance explains every leaf: the rows support no condition at --significance {settings['significance']:g}."
        )
    if document.noise and document.noise.with_probe:
        return "Every certified rule uses a probe: these settings find nothing but chance in this table."
    one = "The supported rule has too little evidence"
    reason = one if funnel.supported == 1 else f"None of the {funnel.supported:,} supported rules has enough evidence"
    reason += ", given how many rules are possible."
    if document.certificate and not document.certificate.shuffles:
        reason += " Searches on shuffled labels (--certify N) may certify more than the bound that was used."
    return reason


def completeness_texts(search: SearchInfo) -> list[str]:
    """What was counted completely, in a few words."""
    complete = search.completeness
    if complete is None or search.strategy == "single":
        return []
    if complete.all_subsets:
        return ["all subsets tried"]
    return ["all pairs and triples counted" if complete.triples else "all pairs counted"] if complete.pairs else []
