"""`maabo report` and `maabo diff`: reports and comparisons of jobs and of saved runs."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from maabo_dist._util.text import printable
from maabo_dist.cli.cluster import ClusterAddress, cluster_options, connect
from maabo_dist.cli.jobs import format_evidence, read_rules
from maabo_dist.cli.options import SectionedCommand
from maabo_dist.cli.output import check_writable, write_file
from maabo_dist.console import json_option, print_json, print_note
from maabo_dist.contract.result import ResultDocument
from maabo_dist.errors import FormatError

_HELP = """Write an HTML report of RESULT: a job, or the directory or rules.json of a run.

\b
  maabo report 7f3a --server https://maabo.example
  maabo mine customers.csv --target churned --out run --report rules.html
  maabo report run --out again.html

The report has all figures for a job over HTTP, and for a run that has figures.json, which `--report` saves.
"""


@click.command("report", cls=SectionedCommand, help=_HELP)
@click.argument("result")
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path, allow_dash=True),
    default=Path("rules.html"),
    help="The file to write; - is stdout.  [default: rules.html]",
)
@cluster_options
def report_command(result: str, out: Path, address: ClusterAddress) -> int:
    """Write the report; `_HELP` is the help text."""
    if str(out) == "-":
        click.echo(_make_report(result, address).encode(), nl=False)  # as bytes: the page declares UTF-8
        return 0
    check_writable(out)
    write_file(out, _make_report(result, address))
    print_note(f"wrote {out}.")
    return 0


def _make_report(result: str, address: ClusterAddress) -> str:
    # pandas and numba take half a second to import.
    from maabo_dist.report.html import report_page  # noqa: PLC0415
    from maabo_dist.report.run_folder import read_run  # noqa: PLC0415

    if _is_job(result):
        cluster = connect(address)
        record = cluster.find(result)
        return report_page(read_rules(cluster, record), cluster.figures(record.id))
    document, figures = read_run(Path(result))
    try:
        return report_page(document, figures)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise FormatError(f"{result!r} is damaged: {error} is missing or invalid. Mine it again.") from error


@click.command("diff")
@click.argument("one")
@click.argument("other")
@json_option
@cluster_options
def diff_command(one: str, other: str, as_json: bool, address: ClusterAddress) -> int:
    """Compare the rules of ONE and OTHER: jobs, or directories or rules.json files of runs."""
    from maabo_dist.report.diff import diff_documents  # noqa: PLC0415 - see _make_report

    diff = diff_documents(_read_document(one, address), _read_document(other, address))
    if as_json:
        print_json(diff)
    else:
        click.echo("\n".join(_diff_lines(diff)))
    return 0


def _read_document(result: str, address: ClusterAddress) -> ResultDocument:
    """Read the document of a file or directory with this name, or of the job with this id."""
    if not _is_job(result):
        from maabo_dist.report.run_folder import read_run  # noqa: PLC0415 - see _make_report

        return read_run(Path(result))[0]
    cluster = connect(address)
    return read_rules(cluster, cluster.find(result))


def _is_job(result: str) -> bool:
    """Return True if this looks like a job id, and no such file exists."""
    return re.fullmatch(r"[0-9a-fA-F]{1,32}", result) is not None and not Path(result).exists()


def _diff_lines(diff: dict[str, Any]) -> Iterator[str]:
    for side in ("one", "other"):
        run = diff[side]
        yield f"{side:<6} {printable(run['name'])}: {run['rules']} rules, digest {run['digest'][:16]}"
    if diff["equal"]:
        yield "The rules are the same."
        return
    yield f"{diff['same']} rules are the same in both."
    for name, title in (("changed", "Same conditions, different evidence"), ("moved", "Different thresholds")):
        lines = [(_rule_line(pair["one"]), f"  → {_rule_line(pair['other']).strip()}") for pair in diff[name]]
        yield from _section(title, [line for pair in lines for line in pair])
    for name, title in (("only_in_one", "Only in ONE"), ("only_in_other", "Only in OTHER")):
        yield from _section(title, [_unmatched_line(rule) for rule in diff[name]])


def _section(title: str, lines: list[str]) -> list[str]:
    return ["", f"{title}:", *lines] if lines else []


def _unmatched_line(rule: dict[str, Any]) -> str:
    similar = rule["similar"]
    return _rule_line(rule) + (f"; most similar: {similar['id']} ({similar['similarity']:.0%})" if similar else "")


def _rule_line(rule: dict[str, Any]) -> str:
    return f"  {rule['id']}  {printable(rule['text'])}  {format_evidence(rule['n'], rule['validation']['precision'])}"
