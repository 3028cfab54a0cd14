"""`maabo report` and `maabo diff`: results of jobs and of earlier runs, as a page and beside each other."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from maabo_dist._util.text import printable
from maabo_dist.cli.jobs import json_option, rules_text
from maabo_dist.cli.options import SectionedCommand
from maabo_dist.cli.output import check_page, write_page
from maabo_dist.cli.place import Place, place_options
from maabo_dist.cli.progress import note
from maabo_dist.cli.remote import connect
from maabo_dist.errors import FormatError

if TYPE_CHECKING:
    from maabo_dist.report import Document

_HELP = """Write RESULT as a page to look at: a job, or the folder or rules.json of a run.

\b
  maabo report 7f3a --server https://maabo.example
  maabo mine customers.csv --target churned --out run --report rules.html
  maabo report run --out again.html

It has all pictures for a job over HTTP, and where the run has its exhibits.json, which a run with --report keeps.
"""


@click.command("report", cls=SectionedCommand, help=_HELP)
@click.argument("result")
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path, allow_dash=True),
    default=Path("rules.html"),
    help="Where the page goes; - is stdout.  [default: rules.html]",
)
@place_options
def report_command(result: str, out: Path, place: Place) -> int:
    """Write the page; `_HELP` is what the user reads."""
    if str(out) == "-":
        click.echo(_page_of(result, place).encode(), nl=False)  # as bytes: the page says that it is UTF-8
        return 0
    check_page(out)
    write_page(out, _page_of(result, place))
    note(f"wrote {out}.")
    return 0


def _page_of(result: str, place: Place) -> str:
    from maabo_dist.report import read_run, report_page

    if _is_job(result):
        cluster = connect(place)
        record = cluster.find(result)
        return report_page(json.loads(rules_text(cluster, record)), cluster.exhibits(record.id))
    document, exhibits = read_run(Path(result))
    try:
        return report_page(document, exhibits)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise FormatError(f"{result!r} is damaged: its document lacks or garbles {error}. Mine it again.") from error


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
    if not _is_job(result):
        from maabo_dist.report import read_run

        return read_run(Path(result))[0]
    cluster = connect(place)
    document: Document = json.loads(rules_text(cluster, cluster.find(result)))
    return document


def _is_job(result: str) -> bool:
    """Whether this can only be the beginning of a job's id."""
    return re.fullmatch(r"[0-9a-fA-F]{1,32}", result) is not None and not Path(result).exists()


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
