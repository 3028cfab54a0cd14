"""The head of the page: what was mined, how far the search went, base rates and the funnel."""

from collections.abc import Iterator

from maabo_dist.report.document import Document
from maabo_dist.report.page.markup import Html, element, joined
from maabo_dist.report.page.pictures import base_rates, funnel
from maabo_dist.report.sayings import dropping_text, noise_text, repeats_text, share_text
from maabo_dist.report.wording import large_number

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
