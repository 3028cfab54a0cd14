"""`maabo apply` and `maabo check`: the rules of a finished run on a new table."""

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from maabo_dist._util.files import atomic_write
from maabo_dist._util.text import format_count
from maabo_dist.cli.options import split_names
from maabo_dist.cli.output import check_writable
from maabo_dist.console import json_option, print_note
from maabo_dist.errors import SettingsError

if TYPE_CHECKING:
    from maabo_dist.contract.checks import CheckReport

_FORMATS = ("parquet", "csv")
_SUFFIXES = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv"}
_STATUSES = ("drifted", "failed", "untested")

_APPLY_HELP = """Write which rules match each row of TABLE, the class that they predict and the reason.

\b
  maabo mine customers.csv --target churned --out run
  maabo apply run/rules.json new.parquet --out matches.parquet --keep customer_id
  cat new.csv | maabo apply run - --out - > matches.csv

RULES is the rules.json of a run, or its directory. TABLE is a file that maabo mine reads, - for standard input, or a
directory, glob or URL of Parquet or CSV files. It is read in parts, so that it may be larger than the memory.
"""

_rules_argument = click.argument("rules", metavar="RULES", type=click.Path(path_type=Path))


@click.command("apply", help=_APPLY_HELP, context_settings={"max_content_width": 100})
@_rules_argument
@click.argument("table", metavar="TABLE")
@click.option(
    "--out",
    metavar="FILE",
    required=True,
    type=click.Path(path_type=Path, allow_dash=True),
    help="The file to write; - is stdout.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(_FORMATS),
    help="Format of the file.  [default: by its suffix; csv for stdout]",
)
@click.option("--keep", metavar="COLUMNS", multiple=True, help="Columns of the table to copy, separated by commas.")
@click.option("--quiet", "-q", is_flag=True, help="Print no progress and no notes.")
def apply_command(rules: Path, table: str, out: Path, format_: str | None, keep: tuple[str, ...], quiet: bool) -> int:
    """Apply rules to a table; `_APPLY_HELP` is the help text."""
    form: Any = format_ or _format_of(out)
    if str(out) != "-":
        check_writable(out)
    # pandas and numba take half a second to import.
    from maabo_dist.new_data.use import apply_rules_to_file, load_rules  # noqa: PLC0415

    document = load_rules(rules)
    with _open_output(out, form) as file, show_rows(quiet=quiet) as progress:
        summary = apply_rules_to_file(document, table, file, form=form, keep=split_names(keep), progress=progress)
    if not quiet:
        share = f"{summary.matched / max(1, summary.rows):.1%}".replace("%", " %")
        for line in summary.notes:
            print_note(line)
        print_note(
            f"applied {format_count(len(document.rules), document.noun)} to {format_count(summary.rows, 'row')}: "
            f"{summary.matched:,} match ({share})" + ("." if str(out) == "-" else f"; wrote {out}.")
        )
    return 0


_CHECK_HELP = """Measure RULES on new labelled data: which still hold, which drifted, which failed.

\b
  maabo check run/rules.json march.parquet --target churned
  maabo check run march.csv --fail-on drifted,failed --json > check.json

RULES is the rules.json of a run, or its directory. TABLE is a file that maabo mine reads, - for standard input, or a
directory, glob or URL of Parquet or CSV files. The exit code is 1 if a rule has an outcome that --fail-on names.
"""


@click.command("check", help=_CHECK_HELP, context_settings={"max_content_width": 100})
@_rules_argument
@click.argument("table", metavar="TABLE")
@click.option("--target", metavar="TEXT", help="Column that holds the class.  [default: that of the rules]")
@click.option(
    "--significance",
    type=float,
    default=0.05,
    metavar="NUMBER",
    help="Level of the tests, which are corrected for the number of rules.  [default: 0.05]",
)
@click.option(
    "--fail-on",
    metavar="OUTCOMES",
    multiple=True,
    help="Exit with 1 if a rule has one of these outcomes: drifted, failed, untested.",
)
@json_option
@click.option("--quiet", "-q", is_flag=True, help="Print no progress.")
def check_command(
    rules: Path,
    table: str,
    target: str | None,
    significance: float,
    fail_on: tuple[str, ...],
    as_json: bool,
    quiet: bool,
) -> int:
    """Check rules on a table; `_CHECK_HELP` is the help text."""
    statuses = _parse_statuses(fail_on)
    # pandas and numba take half a second to import.
    from maabo_dist.new_data.use import check_rules  # noqa: PLC0415

    with show_rows(quiet=quiet) as progress:
        report = check_rules(rules, table, target=target, significance=significance, progress=progress)
    _print_report(report, as_json=as_json)
    return 1 if report.having(*statuses) else 0


def _print_report(report: "CheckReport", *, as_json: bool) -> None:
    if as_json:
        click.echo(report.to_text().encode(), nl=False)  # as bytes: UTF-8 on every system
        return
    from maabo_dist.report.checks import print_check  # noqa: PLC0415 - see apply_command
    from maabo_dist.report.terminal import report_console  # noqa: PLC0415

    print_check(report, report_console(sys.stdout))


def _parse_statuses(texts: tuple[str, ...]) -> tuple[Any, ...]:
    from maabo_dist.contract.checks import CheckStatus  # noqa: PLC0415 - pydantic models are slow to import

    names = split_names(texts)
    unknown = [name for name in names if name not in _STATUSES]
    if unknown:
        raise SettingsError(f"--fail-on {unknown[0]!r}: use one or more of {', '.join(_STATUSES)}.")
    return tuple(CheckStatus(name) for name in names)


def _format_of(path: Path) -> str:
    if str(path) == "-":
        return "csv"
    form = _SUFFIXES.get(path.suffix.lower())
    if form is None:
        raise SettingsError(f"--out {str(path)!r}: the suffix names no format. Use .parquet or .csv, or give --format.")
    return form


@contextmanager
def _open_output(path: Path, form: str) -> Iterator[BinaryIO]:
    """Open the file, which appears only when it is complete, or stdout."""
    if str(path) != "-":
        try:
            with atomic_write(path) as file:
                yield file
        except OSError as error:
            raise SettingsError(f"{str(path)!r}: writing failed ({error.strerror}).") from error
    elif form == "csv":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    else:
        with TemporaryFile() as file:  # Parquet needs to know its position, which a pipe has not
            yield file
            file.seek(0)
            shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()


@contextmanager
def show_rows(*, quiet: bool) -> Iterator[Callable[[int], None] | None]:
    """Show the rows so far on stderr, if it is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415 - rich takes 0.1 s to import
    from rich.status import Status  # noqa: PLC0415

    with Status("reading the table", console=Console(file=sys.stderr)) as status:
        yield lambda rows: status.update(f"{rows:,} rows")
