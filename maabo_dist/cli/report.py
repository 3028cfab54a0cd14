"""`maabo report`: a page to look at, from the folder or the document of a run."""

from pathlib import Path

import click

from maabo_dist.cli.options import SectionedCommand
from maabo_dist.cli.output import check_page, write_page
from maabo_dist.cli.progress import note
from maabo_dist.errors import FormatError

_HELP = """Write a page to look at from RUN, the folder that `maabo mine --out` filled, or its rules.json.

\b
  maabo mine customers.csv --target churned --out run --report rules.html
  maabo report run --out again.html

It has all pictures where the run has its exhibits.json, which a run with --report keeps.
"""


@click.command("report", cls=SectionedCommand, help=_HELP)
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path),
    default=Path("rules.html"),
    help="The page.  [default: rules.html]",
)
def report_command(run: Path, out: Path) -> int:
    """Write the page; `_HELP` is what the user reads."""
    check_page(out)
    write_page(out, _page_of(run))
    note(f"Wrote {out}.")
    return 0


def _page_of(run: Path) -> str:
    from maabo_dist.report import read_run, report_page

    document, exhibits = read_run(run)
    try:
        return report_page(document, exhibits)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise FormatError(f"{str(run)!r} is damaged: its document lacks or garbles {error}. Mine it again.") from error
