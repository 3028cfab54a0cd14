"""The sections of the page around the findings: headline, a row to try, and how the findings were found."""

import re
from collections.abc import Iterator, Mapping, Sequence

from maabo_dist._util.text import format_count
from maabo_dist.contract.coverage import MAX_COMPARED
from maabo_dist.contract.result import DatasetInfo, ResultDocument
from maabo_dist.contract.rules import ConsensusRecord
from maabo_dist.contract.wording import large_number, predicted_text, statement_text
from maabo_dist.report import summary
from maabo_dist.report.briefing import headline
from maabo_dist.report.html.markup import Html, base_rates, element, escape_text, funnel, joined
from maabo_dist.report.html.terms import term


def title_text(document: ResultDocument) -> str:
    """The title of the page: `12 rules for survived`, `3 rules so far for survived`."""
    so_far, noun = " so far" if document.running else "", document.noun
    rules = format_count(len(document.rules), noun) if document.rules else f"No {noun}s"
    return f"{rules}{so_far} for {document.dataset.target}"


def header(document: ResultDocument) -> Html:
    """The headline, what it is about, and links to the sections."""
    return element(
        "header",
        element("p", *_about(document), class_="dataset"),
        element("h1", _unbroken(f"{headline(document)}."), class_="headline"),
        element(
            "nav",
            element("a", f"{document.noun.capitalize()}s", href="#findings"),
            *([element("a", "What they explain", href="#explained")] if _explains(document) else []),
            element("a", "Try a row", href="#try", class_="scripted") if document.rules else Html(),
            element("a", "How this was found", href="#how"),
            class_="contents",
            aria_label="Contents",
        ),
        class_="top",
    )


def _unbroken(text: str) -> Html:
    """The text with spaces at which no line ends around signs: `survived = 1`, `47 %`."""
    joined_signs = re.sub(r" (=|≤|≥|&lt;|&gt;) ", r"&nbsp;\1&nbsp;", escape_text(text))
    return Html(re.sub(r"(\d) %", r"\1&nbsp;%", joined_signs))


def _about(document: ResultDocument) -> Iterator[str]:
    dataset, kept = document.dataset, document.dataset.parts.holdout
    # The page of a job has these in its heading.
    yield element("span", element("b", dataset.name), f" · {dataset.target} · ", class_="dataset-name")
    yield format_count(dataset.rows, "row")
    if kept:
        yield f", {kept:,} of them kept for a check"
    if document.notes:
        yield " · "
        yield element("a", Html(format_count(len(document.notes), "note").replace(" ", "&nbsp;")), href="#notes")


def _explains(document: ResultDocument) -> bool:
    return document.coverage is not None and bool(document.coverage.compared)


def try_section(document: ResultDocument, *, with_rows: bool) -> Html:
    """The container of the form in which a reader changes a row; the script fills it."""
    if not document.rules or not with_rows:
        return Html()
    return element(
        "section",
        element("h2", "Try a row", id="try-heading"),
        element(
            "p",
            f"A row of the table. Change a value and see which {document.noun}s match, and which condition fails. "
            "Nothing leaves this page.",
            class_="hint",
        ),
        element("div", id="try-row"),
        id="try",
        class_="scripted",
        aria_labelledby="try-heading",
    )


def how_section(document: ResultDocument, versions: Mapping[str, str], *, with_figures: bool) -> Html:
    """Everything about the run: facts, funnel, notes, figures, settings and digests."""
    return element(
        "section",
        element("h2", "How this was found", id="how-heading"),
        element("dl", *_facts(document), class_="facts"),
        element(
            "div",
            element(
                "section",
                element("h3", "Usual shares of the classes"),
                element("p", "Of the training rows.", class_="hint"),
                base_rates(document.dataset),
            ),
            element(
                "section",
                element("h3", f"From leaves to {document.noun}s"),
                element(
                    "p", term("leaves", "Leaves"), " that passed each filter, on a logarithmic scale.", class_="hint"
                ),
                funnel(document),
            ),
            class_="overview",
        ),
        _list([*_completeness(document), *_outcome(document), *document.notes], class_="notes", id_="notes"),
        figures_section(document, with_figures=with_figures),
        consensus_section(document),
        run_section(document, versions),
        id="how",
        aria_labelledby="how-heading",
    )


def _completeness(document: ResultDocument) -> Iterator[str]:
    if document.search.completeness is not None:
        yield document.search.completeness.statement


def _facts(document: ResultDocument) -> Iterator[Html]:
    dataset, space, search, settings = document.dataset, document.space, document.search, document.settings
    parts = dataset.parts
    holdout = f" · {parts.holdout:,} held out" if parts.holdout else ""
    probes = f", {settings['probes']:,} of them probes" if settings["probes"] else ""
    share = summary.share_text(search.trees, space.size)
    facts: list[tuple[str, str, str]] = [
        ("Rows", f"{dataset.rows:,}", f"{parts.train:,} training · {parts.validation:,} validation{holdout}"),
        ("Features", f"{space.features:,}", f"D{probes}; D′ = {summary.subset_size_text(space)} per tree"),
        (term("space", "Space"), large_number(space.size), "feature subsets, |Ω|"),
        ("Trees", f"{search.trees:,}", f"{share} of the space in {search.seconds:.1f} s, {search.strategy}"),
        (term("f1", "Best F1"), summary.best_score_text(search), "macro, on validation rows"),
        (term("seed", "Seed"), str(settings["seed"]), f"maabo {document.version}"),
        (term("digest", "Digest"), document.digest[:12], "of the rules: equal rules, equal digest"),
    ]
    for label, value, remark in facts:
        yield element("div", element("dt", label), element("dd", element("b", value), " ", element("span", remark)))


def _list(lines: Sequence[str], class_: str | None = None, id_: str | None = None) -> Html:
    return element("ul", *(element("li", line) for line in lines), class_=class_, id=id_) if lines else Html()


def _outcome(document: ResultDocument) -> Iterator[str]:
    for name, text in summary.outcome_texts(document).items():
        if name == "certified":
            p = text.removeprefix("adjusted p")
            yield joined([term("certificate", "Certified"), ": ", term("adjusted-p", "adjusted p"), f"{p}."])
        else:
            yield f"{name.capitalize()}: {text}."
    if not document.dataset.parts.holdout and document.lists_findings:
        yield (
            "No rows were held out. The adjusted p-values need none, but expect a somewhat lower precision on new rows."
        )
    elif not document.dataset.parts.holdout:
        yield (
            "No rows were held out. Training rows made the rules and validation rows chose the trees, so both "
            "overstate how good the rules are. Mine with --holdout before you rely on a rule."
        )


_FIGURES = {
    "scatter": "Precision against coverage",
    "heat": "Similarity of rules",
    "rows": "Rows covered by rules",
    "use": "Features of the best trees",
    "history": "The search",
}
_CAPTIONS = {
    "scatter": "One arrow for each rule, from its precision on training rows to that on {later} rows. "
    "Dashed lines are base rates.",
    "heat": "How much of the smaller of two rules is in the other: conditions they share, or rows that both cover. "
    "Similar rules are next to each other.",
    "rows": "Each line is a rule and each column a row of the table, in the colour of its class. Rows covered by the "
    "same rules are next to each other.",
    "use": "Share of the best trees that use a feature (bar), its share of all trees (tick), and how often two are "
    "used together (squares).",
    "history": "Score of each tree and the best so far; below, how many of the rules above had been found.",
}


def figures_section(document: ResultDocument, *, with_figures: bool) -> Html:
    """Containers for the figures; without figure data, only those that the document alone can fill."""
    if not document.rules and not with_figures:
        return Html()
    many = len(document.rules) > MAX_COMPARED
    kinds = [
        kind
        for kind in _FIGURES
        if (with_figures or kind == "scatter")
        and (document.rules or kind in {"use", "history"})
        # The overlap of a few findings is shown above.
        and (many or document.coverage is None or kind not in {"heat", "rows"})
    ]
    later = "held-out" if document.dataset.parts.holdout else "validation"
    return element(
        "section",
        element("h3", "Figures", id="pictures-heading"),
        element("div", *(_figure(kind, later) for kind in kinds), class_="figures"),
        id="pictures",
        class_="scripted",
        aria_labelledby="pictures-heading",
    )


def _figure(kind: str, later: str) -> Html:
    return element(
        "figure",
        element("h4", _FIGURES[kind]),
        element("figcaption", _CAPTIONS[kind].format(later=later)),
        element("div", class_="picture"),
        id=f"figure-{kind}",
        class_=kind,
    )


def consensus_section(document: ResultDocument) -> Html:
    """Rules that most repeats found again."""
    if not document.repeats or not document.repeats.consensus:
        return Html()
    head = element("tr", *(element("th", label, scope="col") for label in ("Rule", "If … then", "Rows", "Comes back")))
    return element(
        "section",
        element("h3", "Consensus rules", id="consensus-heading"),
        element("p", "Rules found again when other halves of the rows were mined.", class_="hint"),
        element(
            "table",
            element("thead", head),
            element("tbody", *(_consensus_row(rule, document.dataset) for rule in document.repeats.consensus)),
            class_="plain",
        ),
        aria_labelledby="consensus-heading",
    )


def _consensus_row(rule: ConsensusRecord, dataset: DatasetInfo) -> Html:
    return element(
        "tr",
        element("th", rule.rule or "–", scope="row"),
        element("td", statement_text(rule.premise, predicted_text(rule, dataset))),
        element("td", f"{rule.rows:,}", class_="number"),
        element("td", summary.returns_text(rule.stability), class_="number"),
    )


def run_section(document: ResultDocument, versions: Mapping[str, str]) -> Html:
    """Settings and digests of the run, to repeat it; `versions` of the packages that mined it, where known."""
    return element(
        "section",
        element("h3", "The run", id="run-heading"),
        element("p", "Same table, same settings, same seed: same rules, and the same digest.", class_="hint"),
        element("dl", *_proofs(document, versions), class_="proofs"),
        element("details", element("summary", "Search plan"), _list(document.search.explained)),
        element("details", element("summary", "All settings"), _settings(document)),
        id="run",
        aria_labelledby="run-heading",
    )


def _proofs(document: ResultDocument, versions: Mapping[str, str]) -> Iterator[Html]:
    others = [f"{name} {version}" for name, version in versions.items() if name != "maabo-dist"]
    facts = {
        "Digest of the rules": document.digest,
        "Fingerprint of the table": document.dataset.fingerprint,
        "Versions": ", ".join([f"maabo {document.version}", *others, document.format]),
        "End of the search": document.search.stopped.explanation,
    }
    for label, value in facts.items():
        is_code = value in (document.digest, document.dataset.fingerprint)
        yield element("div", element("dt", label), element("dd", element("code", value) if is_code else value))


def _settings(document: ResultDocument) -> Html:
    settings = {**(document.dataset.settings or {}), **document.settings}
    rows = (
        element("tr", element("th", name, scope="row"), element("td", _setting(value)))
        for name, value in sorted(settings.items())
        if value not in (None, [])
    )
    return element("table", element("tbody", *rows), class_="plain")


def _setting(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case [[*_], *_]:
            return "; ".join(map(_setting, value))
        case list():
            return ", ".join(map(str, value))
        case _:
            return str(value)
