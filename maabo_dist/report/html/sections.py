"""The head of the page: what was mined, how far the search went, base rates and the funnel."""

from collections.abc import Iterator, Mapping
from typing import Any

from maabo_dist.report.document import Document, conditions_of, predicted_text
from maabo_dist.report.html.markup import Html, base_rates, element, funnel, joined
from maabo_dist.report.summary import dropping_text, noise_text, repeats_text, returns_text, share_text
from maabo_dist.report.wording import large_number, statement_text

Fact = tuple[str, str, str]
"""A label, what stands out, and what is said of it."""


def title_text(document: Document) -> str:
    """`12 rules for survived`, `3 rules so far for survived`."""
    count = len(document["rules"])
    so_far = " so far" if document["search"]["stopped"] == "running" else ""
    return f"{count:,} rule{'' if count == 1 else 's'}{so_far} for {document['dataset']['target']}"


def header(document: Document) -> Html:
    """Title, facts, base rates and funnel."""
    return element(
        "header",
        element("p", document["dataset"]["name"], class_="dataset"),
        element("h1", title_text(document)),
        element("dl", *map(_fact, _facts(document)), class_="facts"),
        element(
            "div",
            element("section", element("h2", "Base rates"), _note("Of the training rows."), base_rates(document)),
            element(
                "section",
                element("h2", "From leaves to rules"),
                _note("Leaves that passed each sieve. Lengths are logarithmic."),
                funnel(document),
            ),
            class_="overview",
        ),
        _notes(document),
        element(
            "nav",
            element("a", "Rules", href="#rules"),
            element("a", "Pictures", href="#pictures", class_="scripted"),
            element("a", "The run", href="#run"),
            class_="contents",
            aria_label="Contents",
        ),
        class_="top",
    )


def _fact(fact: Fact) -> Html:
    label, value, more = fact
    return element("div", element("dt", label), element("dd", element("b", value), " ", element("span", more)))


def _facts(document: Document) -> Iterator[Fact]:
    dataset, space, search, settings = (document[key] for key in ("dataset", "space", "search", "settings"))
    parts = dataset["parts"]
    held = f" · {parts['holdout']:,} held out" if parts["holdout"] else ""
    yield "Rows", f"{dataset['rows']:,}", f"{parts['train']:,} training · {parts['validation']:,} validation{held}"
    probes = f", {settings['probes']:,} of them probes" if settings.get("probes") else ""
    each = str(space["subset_size"]).replace("-", "–")
    yield "Features", f"{space['features']:,}", f"D{probes}; D′ = {each} a tree"
    yield "Space", large_number(space["size"]), "feature subsets, |Ω|"
    tried = share_text(search["trees"], space["size"])
    yield "Trees", f"{search['trees']:,}", f"{tried} of the space in {search['seconds']:.1f} s, {search['strategy']}"
    best = "–" if search["best_score"] is None else f"{search['best_score']:.3f}"
    yield "Best F1", best, "macro, on validation rows"
    yield "Seed", str(settings["seed"]), f"maabo {document['version']}"
    yield "Digest", document["digest"][:12], "of the rules: equal rules, equal digest"


def _notes(document: Document) -> Html:
    said = [*_findings(document), *document["notes"]]
    return element("ul", *(element("li", line) for line in said), class_="notes") if said else Html()


def _findings(document: Document) -> Iterator[str]:
    if document.get("dropping"):
        yield f"Dropped: {dropping_text(document['dropping'], document['settings']['significance'])}."
    if document.get("noise"):
        yield f"Noise: {noise_text(document['noise'])}."
    if document.get("repeats"):
        yield f"Repeats: {repeats_text(document['repeats'])}."
    if not document["dataset"]["parts"]["holdout"]:
        yield (
            "No rows were held out. Training rows made the rules and validation rows chose among trees, so that "
            "both flatter them; mine with --holdout before you rely on a rule."
        )


def _note(text: str) -> Html:
    return element("p", joined([text]), class_="hint")


_FIGURES = {
    "scatter": "Precision against coverage",
    "heat": "Rules beside rules",
    "rows": "Which rows which rules cover",
    "use": "Features of the best trees",
    "history": "The search",
}
_CAPTIONS = {
    "scatter": "One arrow a rule, from what it promised on training rows to what it did on {later} rows. "
    "Dashed lines are base rates.",
    "heat": "How much of the smaller of two rules is in the other: conditions they share, or rows that both cover. "
    "Similar rules stand together.",
    "rows": "A line a rule, a column a row of the table, in the colour of its class. Rows that the same rules cover "
    "stand together.",
    "use": "Share of the best trees that use a feature (bar) beside its share of all trees (tick), and how often two "
    "are used together (squares).",
    "history": "Score of each tree and the best so far; below, how many of the rules above had been found.",
}


def figures_section(document: Document, *, pictured: bool) -> Html:
    """Places for the figures: without exhibits only what the document alone can show."""
    if not document["rules"] and not pictured:
        return Html()
    kinds = [
        kind
        for kind in _FIGURES
        if (pictured or kind == "scatter") and (document["rules"] or kind in {"use", "history"})
    ]
    later = "held-out" if document["dataset"]["parts"]["holdout"] else "validation"
    return element(
        "section",
        element("h2", "Pictures", id="pictures-heading"),
        element("div", *(_figure(kind, later) for kind in kinds), class_="figures"),
        id="pictures",
        class_="scripted",
        aria_labelledby="pictures-heading",
    )


def _figure(kind: str, later: str) -> Html:
    return element(
        "figure",
        element("h3", _FIGURES[kind]),
        element("figcaption", _CAPTIONS[kind].format(later=later)),
        element("div", class_="picture"),
        id=f"figure-{kind}",
        class_=kind,
    )


def consensus_section(document: Document) -> Html:
    """Rules that mostly came back when other draws of the rows were mined."""
    entries = (document.get("repeats") or {}).get("consensus", [])
    if not entries:
        return Html()
    head = element("tr", *(element("th", label, scope="col") for label in ("Rule", "If … then", "Rows", "Comes back")))
    return element(
        "section",
        element("h2", "Consensus rules", id="consensus-heading"),
        element("p", "Rules that came back when other halves of the rows were mined.", class_="hint"),
        element(
            "table",
            element("thead", head),
            element("tbody", *(_consensus_row(entry, document) for entry in entries)),
            class_="plain",
        ),
        aria_labelledby="consensus-heading",
    )


def _consensus_row(entry: Mapping[str, Any], document: Document) -> Html:
    text = statement_text(conditions_of(entry), predicted_text(entry, document))
    return element(
        "tr",
        element("th", entry["rule"] or "–", scope="row"),
        element("td", text),
        element("td", f"{entry['rows']:,}", class_="number"),
        element("td", returns_text(entry["stability"]), class_="number"),
    )


def run_section(document: Document, versions: Mapping[str, str]) -> Html:
    """How the search was set, and what proves that a repetition is one; `versions` of what mined it, where known."""
    return element(
        "section",
        element("h2", "The run", id="run-heading"),
        element("p", "Same table, same settings, same seed: same rules, and the same digest.", class_="hint"),
        element("dl", *_proofs(document, versions), class_="proofs"),
        element("details", element("summary", "How it was searched"), _explained(document)),
        element("details", element("summary", "All settings"), _settings(document)),
        id="run",
        aria_labelledby="run-heading",
    )


def _proofs(document: Document, versions: Mapping[str, str]) -> Iterator[Html]:
    others = [f"{name} {version}" for name, version in versions.items() if name != "maabo-dist"]
    facts = {
        "Digest of the rules": document["digest"],
        "Fingerprint of the table": document["dataset"]["fingerprint"],
        "Versions": ", ".join([f"maabo {document['version']}", *others, document["format"]]),
        "Ended by": document["search"]["stopped"],
    }
    for label, value in facts.items():
        yield element("div", element("dt", label), element("dd", value))


def _explained(document: Document) -> Html:
    return element("ul", *(element("li", line) for line in document["search"].get("explained", [])))


def _settings(document: Document) -> Html:
    settings = {**(document["dataset"].get("settings") or {}), **document["settings"]}
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
        case list():
            return ", ".join(map(str, value))
        case _:
            return str(value)
