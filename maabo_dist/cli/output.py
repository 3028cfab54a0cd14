"""Where rules go, and in what form: the options, and the writing."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Self

import click

from maabo_dist.cli.options import Command, all_of, section_option
from maabo_dist.cli.progress import note
from maabo_dist.errors import SettingsError

if TYPE_CHECKING:
    from maabo_dist.report import Document, Exhibits
    from maabo_dist.settings import MiningSettings
    from maabo_dist.trees.forest import Forest

FORMATS = ("table", "json", "csv", "markdown", "sql", "pandas")

format_options = all_of(
    section_option(
        "--format",
        "format_",
        section="Output",
        type=click.Choice(FORMATS),
        default="table",
        help="What is printed.  [default: table]",
    ),
    section_option("--json", "as_json", section="Output", is_flag=True, help="The same as --format json."),
    section_option(
        "--table-name",
        section="Output",
        default="data",
        metavar="NAME",
        help="Name of the table in --format sql.  [default: data]",
    ),
    section_option(
        "--quiet", "-q", section="Output", is_flag=True, help="Nothing but the rules: no progress, header or notes."
    ),
)

explain_option = section_option(
    "--explain", section="Output", is_flag=True, help="Say on stderr what is chosen for this table, and why."
)


report_option = section_option(
    "--report",
    section="Output",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Also write a page to look at: one HTML file, with pictures.",
)


def out_option(help_text: str) -> Callable[[Command], Command]:
    """The option `--out`, which not every command fills alike."""
    return section_option("--out", section="Output", metavar="DIR", type=click.Path(path_type=Path), help=help_text)


@dataclass(frozen=True, slots=True)
class Output:
    """Where the result goes, and in what form."""

    format: str
    table_name: str
    out: Path | None
    quiet: bool
    explains: bool = False
    report: Path | None = None

    @classmethod
    def given(cls, values: Mapping[str, Any]) -> Self:
        """From a command's values. That files can be written is seen to at once: the search may take hours."""
        form = "json" if values["as_json"] else values["format_"]
        out: Path | None = values.get("out")
        if out is not None:
            from maabo_dist.report.run_folder import make_folder

            make_folder(out)
        page: Path | None = values.get("report")
        if page is not None:
            check_page(page)
        return cls(form, values["table_name"], out, values["quiet"], values.get("explain", False), page)

    def say(self, line: str) -> None:
        """A line for people on stderr, unless they want quiet."""
        if not self.quiet:
            note(line)

    def explain(self, settings: "MiningSettings", columns: int) -> None:
        """Say how a table of so many columns is going to be mined, if that was asked for."""
        if self.explains:
            from maabo_dist.report import explained
            from maabo_dist.search.plan import SearchPlan

            for line in explained(SearchPlan.settle(settings, columns + settings.probes), settings):
                note(line)

    def write(
        self,
        document: "Document",
        forest: "Forest | None",
        run: Mapping[str, Any],
        exhibits: "Exhibits | None" = None,
    ) -> None:
        """Fill the directory and write the page, whichever was asked for."""
        if self.out is not None:
            from maabo_dist.report import write_folder

            write_folder(self.out, document, forest, run, exhibits)
        if self.report is not None:
            from maabo_dist.report import report_page

            write_page(self.report, report_page(document, exhibits))

    def show(self, document: "Document") -> None:
        """Print the rules."""
        from maabo_dist import report

        match self.format:
            case "table":
                report.print_report(document, report.report_console(sys.stdout), only_rules=self.quiet)
                return
            case "json":
                text = report.dump_document(document)
            case "csv":
                text = report.to_csv(document)
            case "markdown":
                text = report.to_markdown(document)
            case "sql":
                text = report.to_sql(document, self.table_name)
            case _:
                text = report.to_pandas(document)
        click.echo(text.encode(), nl=False)  # as bytes: what programs read is UTF-8 on every system
        for line in document["notes"]:
            self.say(line)


def check_page(path: Path) -> None:
    """Say at once why a page could not be written here, if it could not."""
    if path.is_dir():
        raise SettingsError(f"{str(path)!r} is a directory. Give the page a file name, such as rules.html.")
    if not path.parent.is_dir():
        raise SettingsError(
            f"{str(path)!r}: there is no directory {str(path.parent)!r}. Make it, or give another file."
        )
    try:
        with TemporaryFile(dir=path.parent):  # permissions are not all that may stand in the way
            pass
    except OSError as error:
        raise SettingsError(f"{str(path)!r} cannot be written ({error.strerror}). Give another file.") from error


def write_page(path: Path, page: str) -> None:
    """Write the page, whole or not at all."""
    from maabo_dist._util.files import replacing

    try:
        with replacing(path) as file:
            file.write(page.encode())
    except OSError as error:
        raise SettingsError(f"{str(path)!r}: writing failed ({error.strerror}).") from error
