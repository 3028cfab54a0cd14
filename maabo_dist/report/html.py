"""The report as one HTML page that needs nothing else: no script, no font and no picture from anywhere.

Names come from data, and data may be hostile: every text goes through `_text`. The page also says itself what it may
load, so that a saved copy is as safe as one from the server.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from html import escape
from typing import Any

from maabo_dist.report import facts
from maabo_dist.report.document import Document, conditions_of, dropped_of, predicted_text
from maabo_dist.report.wording import ALWAYS, condition_texts, dropped_texts, one_line, p_text

STYLE = """
:root { color-scheme: light dark; --ink: #1c2024; --dim: #5a6570; --line: #d4dae0; --page: #fff; --card: #f6f8fa;
  --accent: #0b5cad; --warn: #8a4b00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --dim: #9aa5b1; --line: #363d45; --page: #14171a;
  --card: #1c2126; --accent: #7db8f5; --warn: #f0b060; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 2rem 1.25rem 4rem; background: var(--page); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .75rem; }
h3 { font-size: 1rem; margin: 0; }
a { color: var(--accent); } a:focus-visible, summary:focus-visible { outline: 2px solid var(--accent); }
.dim { color: var(--dim); } .warn { color: var(--warn); font-weight: 600; }
.skip { position: absolute; left: -99rem; } .skip:focus { position: static; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: .75rem 0; }
dt { color: var(--dim); } dd { margin: 0; }
.funnel { display: flex; flex-wrap: wrap; gap: .25rem .5rem; list-style: none; padding: 0; margin: 0; }
.funnel li:not(:last-child)::after { content: " →"; color: var(--dim); } .funnel li:last-child { font-weight: 600; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
thead th { color: var(--dim); font-weight: 500; } .number { text-align: right; white-space: nowrap; }
article { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: 1rem 1.25rem;
  margin: 1rem 0; }
.premise { list-style: none; padding: 0; margin: .5rem 0; } .premise li:not(:first-child)::before { content: "and ";
  color: var(--dim); }
code { font-family: ui-monospace, monospace; font-size: .9em; }
@media print { article { break-inside: avoid; } .skip { display: none; } }
"""
CONTENT_POLICY = (
    f"default-src 'none'; style-src 'sha256-{b64encode(sha256(STYLE.encode()).digest()).decode()}'; "
    "base-uri 'none'; form-action 'none'"
)
"""Nothing is loaded, nothing runs, and no style but this one applies."""

_PARTS = {"train": "training", "validation": "validation", "holdout": "held out"}


def to_html(document: Document, *, partial: bool = False) -> str:
    """The page; `partial` says that the search went on when these rules were mined."""
    dataset = document["dataset"]
    title = f"{_text(dataset['name'])} · {_text(dataset['target'])}"
    return "".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            f'<meta http-equiv="Content-Security-Policy" content="{escape(CONTENT_POLICY)}">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n',
            f"<title>Rules: {title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n",
            '<a class="skip" href="#rules">To the rules</a>\n',
            *_header(document, partial=partial),
            "<main>\n",
            *_facts(document),
            *_funnel(document),
            *_rules(document),
            *_consensus(document),
            *_notes(document),
            "</main>\n",
            f'<footer>\n<p class="dim">digest <code>{_text(document["digest"])}</code> · maabo ',
            f"{_text(document['version'])}</p>\n</footer>\n</body>\n</html>\n",
        ]
    )


def _text(value: object) -> str:
    """A text from anywhere, as it stands."""
    return escape(one_line(str(value)))


def _header(document: Document, *, partial: bool) -> Iterator[str]:
    dataset = document["dataset"]
    yield f"<header>\n<h1>{_text(dataset['name'])}</h1>\n<p>Rules that predict <b>{_text(dataset['target'])}</b></p>\n"
    if partial:
        yield '<p class="warn" role="status">Rules so far: the search was not over when these were mined.</p>\n'
    yield "</header>\n"


def _facts(document: Document) -> Iterator[str]:
    dataset, settings = document["dataset"], document["settings"]
    told = {
        "rows": facts.rows_text(dataset),
        "classes": ", ".join(f"{name} ({share:.1%})" for name, share in dataset["base_rates"].items()),
        "space": facts.space_text(document["space"], settings.get("probes", 0)),
        "search": facts.search_text(document["search"], document["space"]["size"], settings["seed"]),
    }
    if document.get("dropping"):
        told["dropped"] = facts.dropping_text(document["dropping"], settings["significance"])
    if document.get("noise"):
        told["noise"] = facts.noise_text(document["noise"])
    if document.get("repeats"):
        told["repeats"] = facts.repeats_text(document["repeats"])
    yield f'<section aria-labelledby="run">\n<h2 id="run">The run</h2>\n{_list(told.items())}</section>\n'


def _funnel(document: Document) -> Iterator[str]:
    steps = "".join(f"<li>{_text(step)}</li>" for step in facts.funnel_steps(document["funnel"]))
    yield '<section aria-labelledby="funnel">\n<h2 id="funnel">From leaves to rules</h2>\n'
    yield f'<ol class="funnel">{steps}</ol>\n</section>\n'


def _rules(document: Document) -> Iterator[str]:
    yield '<section aria-labelledby="rules">\n<h2 id="rules">Rules</h2>\n'
    if document["rules"]:
        yield from _overview(document)
        for rule in document["rules"]:
            yield from _rule(rule, document)
    else:
        yield f"<p><b>No rules.</b> {_text(facts.no_rules_text(document))}</p>\n"
    yield "</section>\n"


def _overview(document: Document) -> Iterator[str]:
    yield _table(
        ("rule", "if", "then", "n", "Gini", "precision, validation", "lift, validation"),
        (
            (
                f'<a href="#{_text(rule["id"])}">{_text(rule["id"])}</a>',
                _text(" and ".join(condition_texts(conditions_of(rule))) or ALWAYS),
                _text(predicted_text(rule, document)),
                f"{rule['n']:,}",
                f"{rule['gini']:.3f}",
                _number(rule["validation"]["precision"]),
                _number(rule["validation"]["lift"]),
            )
            for rule in document["rules"]
        ),
        numbers=4,
    )


def _rule(rule: Mapping[str, Any], document: Document) -> Iterator[str]:
    name, premise = _text(rule["id"]), condition_texts(conditions_of(rule)) or [ALWAYS]
    yield f'<article id="{name}" aria-labelledby="{name}-title">\n'
    yield f'<h3 id="{name}-title">{name}: {_text(predicted_text(rule, document))}</h3>\n'
    yield f'<ul class="premise">{"".join(f"<li>{_text(part)}</li>" for part in premise)}</ul>\n'
    yield from _evidence(rule)
    yield _list(_details(rule))
    yield from _displaced(rule)
    yield "</article>\n"


def _evidence(rule: Mapping[str, Any]) -> Iterator[str]:
    parts = {name: rule[part] for part, name in _PARTS.items() if rule[part]}
    yield _table(
        ("rows", "of", "covered", "precision", "recall", "lift"),
        (
            (
                name,
                f"{part['rows']:,}",
                f"{part['n']:,}",
                _number(part["precision"]) + _interval(part),
                _number(part["recall"]),
                _number(part["lift"]),
            )
            for name, part in parts.items()
        ),
        numbers=5,
    )


def _interval(part: Mapping[str, Any]) -> str:
    if part.get("precision_low") is None:
        return ""
    return f" ({part['precision_low']:.2f}–{part['precision_high']:.2f}, {_q_text(part['q'])})"


def _q_text(q: float) -> str:
    return _text(p_text(q).replace("p", "q", 1))


def _details(rule: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    counts = ", ".join(f"{count:,} of {name}" for name, count in rule["counts"].items())
    yield "training rows", f"{rule['n']:,} ({counts}), {rule['unique']:,} of them covered by no other rule"
    yield "Gini index", f"{rule['gini']:.4f}"
    if rule["most_similar"]:
        similar = rule["most_similar"]
        yield "most similar", f"{similar['rule']}, by {similar['similarity']:.2f}"
    tests = [condition["test"]["p"] for condition in rule["conditions"] if condition.get("test")]
    if tests:
        yield "conditions", ", ".join(map(p_text, tests))
    if rule.get("dropped"):
        yield "without", ", ".join(dropped_texts(dropped_of(rule)))
    if rule.get("stability"):
        returns = rule["stability"]
        yield "comes back", f"in {returns['returns']:,} of {returns['repeats']:,} repeats"
    source = rule["source"]
    score = "–" if source["score"] is None else f"{source['score']:.3f}"
    yield "from", f"tree {source['tree']:,} on {', '.join(source['subset'])}; depth {source['depth']}, F1 {score}"


def _displaced(rule: Mapping[str, Any]) -> Iterator[str]:
    if rule["displaced"]:
        yield f"<details><summary>{rule['displaced_total']:,} near-equivalents made redundant</summary>\n<ul>"
        for entry in rule["displaced"]:
            said = f"{entry['text']} → {entry['class']} (n {entry['n']:,}, Gini {entry['gini']:.3f})"
            yield f"<li>{_text(said)}</li>"
        yield "</ul></details>\n"


def _consensus(document: Document) -> Iterator[str]:
    consensus = (document.get("repeats") or {}).get("consensus", [])
    if consensus:
        yield '<section aria-labelledby="consensus">\n<h2 id="consensus">Consensus rules</h2>\n'
        yield _table(
            ("rule", "", "rows", "comes back", "precision, unseen"),
            (
                (
                    _text(entry["rule"] or "–"),
                    _text(entry["text"]),
                    f"{entry['rows']:,}",
                    f"{entry['stability']['returns']:,}/{entry['stability']['repeats']:,}",
                    _number(entry["stability"]["precision"]),
                )
                for entry in consensus
            ),
            numbers=3,
        )
        yield "</section>\n"


def _notes(document: Document) -> Iterator[str]:
    if document["notes"]:
        notes = "".join(f"<li>{_text(note)}</li>" for note in document["notes"])
        yield f'<section aria-labelledby="notes">\n<h2 id="notes">Notes</h2>\n<ul>{notes}</ul>\n</section>\n'


def _list(entries: Iterable[tuple[str, str]]) -> str:
    items = "".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in entries)
    return f"<dl>{items}</dl>\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: int) -> str:
    """`rows` are HTML already; the last columns are numbers."""
    marks = ["" if place < len(head) - numbers else ' class="number"' for place in range(len(head))]
    titles = "".join(f'<th scope="col"{mark}>{_text(name)}</th>' for name, mark in zip(head, marks, strict=True))
    body = "".join(f"<tr>{_cells(row, marks)}</tr>\n" for row in rows)
    return f'<div class="wide"><table>\n<thead><tr>{titles}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n'


def _cells(row: Sequence[str], marks: Sequence[str]) -> str:
    first = f'<th scope="row">{row[0]}</th>'
    return first + "".join(f"<td{mark}>{cell}</td>" for cell, mark in zip(row[1:], marks[1:], strict=True))


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
