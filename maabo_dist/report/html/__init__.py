"""The report for people who look: one HTML file that holds all it needs, made from a document and its figures.

It opens anywhere: no request leaves it, and its own policy forbids any. Header and rules are plain HTML; one script
sorts, filters, opens rules and draws the pictures, from data that stands in the page.
"""

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files

from maabo_dist.contract.result import ResultDocument
from maabo_dist.report.figures import FigureData
from maabo_dist.report.html.markup import Html, element, joined
from maabo_dist.report.html.payload import payload
from maabo_dist.report.html.rules_table import rules_section
from maabo_dist.report.html.sections import consensus_section, figures_section, header, run_section, title_text

__all__ = ["content_policy", "report_page"]


def report_page(document: ResultDocument, figures: FigureData | None = None) -> str:
    """The page; without figures, or with those of other rules, it has fewer pictures."""
    if figures is not None and figures["digest"] != document.digest:
        figures = None
    body = [
        element("a", "Skip to the rules", href="#rules", class_="skip"),
        element("div", id="tools"),
        header(document),
        element(
            "main",
            rules_section(document),
            figures_section(document, pictured=figures is not None),
            consensus_section(document),
            run_section(document, {} if figures is None else figures["versions"]),
        ),
        element("script", Html(payload(document, figures)), type="application/json", id="data"),
        element("script", Html(_asset("report.js"))),
    ]
    return f"<!doctype html>\n{element('html', _head(document), element('body', *body), lang='en')}\n"


def content_policy() -> str:
    """What a browser may do with a page; it stands in the page, and servers may send it too."""
    return (
        f"default-src 'none'; script-src '{_hash('report.js')}'; style-src '{_hash('report.css')}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _head(document: ResultDocument) -> Html:
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=content_policy()),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content=f"maabo {document.version}"),
        element("link", rel="icon", href="data:,"),
        element("title", joined([title_text(document), " · ", document.dataset.name])),
        element("style", Html(_asset("report.css"))),
    )


@cache
def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


@cache
def _hash(name: str) -> str:
    return f"sha256-{b64encode(sha256(_asset(name).encode()).digest()).decode()}"
