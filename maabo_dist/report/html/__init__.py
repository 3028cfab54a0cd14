"""The HTML report: one self-contained file, made from a document and its figure data.

It sends no requests, and its own content security policy forbids any. Header and rules are plain HTML; one script
sorts, filters and expands rules and draws the figures, from data embedded in the page.
"""

import re
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

__all__ = ["MODULES", "content_policy", "report_page"]

# The modules of the script in `assets`, each after those that it imports.
MODULES = (
    *("data", "elements", "table", "histograms", "tree", "detail"),
    *("precision", "similarity", "coverage", "search", "page"),
)

_MODULE_SYNTAX = re.compile(r"^(import .*\n|export (?=\w))", re.MULTILINE)


def report_page(document: ResultDocument, figures: FigureData | None = None) -> str:
    """Return the page; without figure data, or with that of other rules, it has fewer figures."""
    if figures is not None and figures["digest"] != document.digest:
        figures = None
    body = [
        element("a", "Skip to the rules", href="#rules", class_="skip"),
        element("div", id="tools"),
        header(document),
        element(
            "main",
            rules_section(document),
            figures_section(document, with_figures=figures is not None),
            consensus_section(document),
            run_section(document, {} if figures is None else figures["versions"]),
        ),
        element("script", Html(payload(document, figures)), type="application/json", id="data"),
        element("script", Html(_script())),
    ]
    return f"<!doctype html>\n{element('html', _head(document), element('body', *body), lang='en')}\n"


def content_policy() -> str:
    """Return the content security policy that is part of a page; servers may send it too."""
    script, style = _hash(_script()), _hash(_asset("report.css"))
    return (
        f"default-src 'none'; script-src '{script}'; style-src '{style}'; img-src data:; "
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
def _script() -> str:
    """The modules of the script as one: without imports and exports, since all names share one scope."""
    modules = "".join(_MODULE_SYNTAX.sub("", _asset(f"{name}.js")) for name in MODULES)
    return f'"use strict";\n(() => {{\n{modules}}})();\n'


@cache
def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


@cache
def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
