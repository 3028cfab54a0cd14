"""`maabo report` and `maabo diff`: results of jobs and of earlier runs, as a page and beside each other."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from maabo_dist.atomic import replacing
from maabo_dist.cli.jobs import json_option, rules_text
from maabo_dist.cli.place import Place, place_options
from maabo_dist.cli.progress import note
from maabo_dist.cli.remote import connect, printable
from maabo_dist.errors import FormatError, SettingsError

if TYPE_CHECKING:
    from maabo_dist.report import Document

RULES_FILE = "rules.json"
_NEEDED = ("rules", "dataset", "search", "digest")


@click.command("report")
@click.argument("result")
@click.option("--out", metavar="FILE", type=click.Path(path_type=Path), help="Where the page goes.  [default: stdout]")
@place_options
def report_command(result: str, out: Path | None, place: Place) -> int:
    """Write the report of RESULT as a page of HTML: a job, or the folder or rules.json of a run."""
    from maabo_dist.report import to_html

    document = document_of(result, place)
    page = to_html(document, partial=document["search"]["stopped"] == "running").encode()
    if out is None:
        click.echo(page, nl=False)  # as bytes: the page says that it is UTF-8
        return 0
    try:
        with replacing(out) as file:
            file.write(page)
    except OSError as error:
        raise SettingsError(f"--out {out} cannot be written ({error.strerror}). Give another file.") from error
    note(f"wrote {out}.")
    return 0


@click.command("diff")
@click.argument("one")
@click.argument("other")
@json_option
@place_options
def diff_command(one: str, other: str, as_json: bool, place: Place) -> int:
    """Show what is different between the rules of ONE and OTHER: jobs, or folders or rules.json of runs."""
    from maabo_dist.report import diff_documents

    found = diff_documents(document_of(one, place), document_of(other, place))
    if as_json:
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        click.echo("\n".join(_lines(found)))
    return 0


def document_of(result: str, place: Place) -> "Document":
    """The document in a file or a folder of this name, if there is one; else that of the job."""
    path = Path(result)
    path = path / RULES_FILE if path.is_dir() else path
    if not path.exists():
        cluster = connect(place)
        document: Document = json.loads(rules_text(cluster, cluster.find(result)))
        return document
    return _read(path)


def _read(path: Path) -> "Document":
    try:
        document: Document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FormatError(f"{path} cannot be read as JSON: {error}. Give what `mine --json` or --out wrote.") from error
    if not isinstance(document, dict) or any(name not in document for name in _NEEDED):
        raise FormatError(f"{path} holds no rules of ours. Give what `mine --json` or --out wrote.")
    return document


def _lines(found: dict[str, Any]) -> Iterator[str]:
    for side in ("one", "other"):
        told = found[side]
        yield f"{side:<6} {printable(told['name'])}: {told['rules']} rules, digest {told['digest'][:16]}"
    if found["equal"]:
        yield "The rules are the same."
        return
    yield f"{found['same']} rules are the same in both."
    for name, title in (("changed", "The same conditions, other evidence"), ("moved", "Other thresholds")):
        yield from _section(title, [line for pair in found[name] for line in _pair_lines(pair)])
    for name, title in (("only_in_one", "Only in the one"), ("only_in_other", "Only in the other")):
        yield from _section(title, [_alone_line(rule) for rule in found[name]])


def _section(title: str, lines: list[str]) -> list[str]:
    return ["", f"{title}:", *lines] if lines else []


def _pair_lines(pair: dict[str, Any]) -> list[str]:
    return [_rule_line(pair["one"]), f"  → {_rule_line(pair['other']).strip()}"]


def _alone_line(rule: dict[str, Any]) -> str:
    similar = rule["similar"]
    return _rule_line(rule) + (f"; most like {similar['id']} ({similar['similarity']:.0%})" if similar else "")


def _rule_line(rule: dict[str, Any]) -> str:
    precision = rule["validation"]["precision"]
    right = "" if precision is None else f", precision {precision:.2f} on validation rows"
    return f"  {rule['id']}  {printable(rule['text'])}  (n {rule['n']:,}{right})"
