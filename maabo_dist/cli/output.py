"""`Output`: the options for the format of rules and the files to write, and the writing."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Self, cast

import click

from maabo_dist._util.files import atomic_write
from maabo_dist.cli.options import section_option
from maabo_dist.console import Command, combine, print_note
from maabo_dist.contract.result import ResultDocument
from maabo_dist.errors import SettingsError
from maabo_dist.settings import MiningSettings

if TYPE_CHECKING:
    from maabo_dist.data.columns import Columns
    from maabo_dist.report.figures import FigureData
    from maabo_dist.report.sql import SqlDialect, SqlForm
    from maabo_dist.trees.forest import Forest

output_option = partial(section_option, section="Output")
FORMATS = ("table", "json", "csv", "markdown", "sql", "pandas", "polars")
# As in `report.sql`, which is not imported with the command line.
SQL_DIALECTS = ("standard", "duckdb", "postgresql", "sqlite", "bigquery", "snowflake")
SQL_FORMS = ("queries", "case")

format_options = combine(
    output_option(
        "--format",
        "format_",
        type=click.Choice(FORMATS),
        default="table",
        help="Format of the rules on stdout.  [default: table]",
    ),
    output_option("--json", "as_json", is_flag=True, help="Same as --format json."),
    output_option(
        "--table-name",
        default="data",
        metavar="NAME",
        help="Name of the table in --format sql.  [default: data]",
    ),
    output_option(
        "--sql-dialect",
        type=click.Choice(SQL_DIALECTS),
        default="standard",
        help="Database that --format sql is for.  [default: standard]",
    ),
    output_option(
        "--sql-form",
        type=click.Choice(SQL_FORMS),
        default="queries",
        help="In --format sql: a query for each rule, or one CASE expression.  [default: queries]",
    ),
    output_option("--quiet", "-q", is_flag=True, help="Print only the rules: no progress, headline or notes."),
    output_option(
        "--verbose", "-v", is_flag=True, help="Also print the search space, the funnel and dropped conditions."
    ),
)

mining_output_options = combine(
    format_options,
    output_option("--explain", is_flag=True, help="Explain on stderr what is chosen for this table, and why."),
    output_option(
        "--report",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Also write a report with figures as one HTML file.",
    ),
)


def out_option(help_text: str) -> Callable[[Command], Command]:
    """Return the option `--out`; commands differ in the files they write."""
    return output_option("--out", metavar="DIR", type=click.Path(path_type=Path), help=help_text)


@dataclass(frozen=True, slots=True)
class Output:
    """The format of the rules on stdout, and the files to write."""

    format: str
    table_name: str
    out: Path | None
    quiet: bool
    explains: bool = False
    report: Path | None = None
    verbose: bool = False
    sql_dialect: str = "standard"
    sql_form: str = "queries"

    @classmethod
    def from_options(cls, values: Mapping[str, Any]) -> Self:
        """Take the output from a command's values, and check now that the files can be written."""
        form = "json" if values["as_json"] else values["format_"]
        out: Path | None = values.get("out")
        if out is not None:
            from maabo_dist.report.run_folder import make_folder  # noqa: PLC0415 - see write_files

            make_folder(out)
        report: Path | None = values.get("report")
        if report is not None:
            check_writable(report)
        explains, verbose = values.get("explain", False), values.get("verbose", False)
        sql = (values["sql_dialect"], values["sql_form"])
        return cls(form, values["table_name"], out, values["quiet"], explains, report, verbose, *sql)

    def note(self, line: str) -> None:
        """Print a message on stderr, unless `--quiet` is given."""
        if not self.quiet:
            print_note(line)

    def explain(self, settings: MiningSettings, columns: "Columns") -> None:
        """With `--explain`, print how a table will be mined."""
        if self.explains:
            from maabo_dist.study import Study  # noqa: PLC0415 - see write_files

            for line in Study.build(columns, settings).explain():
                print_note(line)

    def write_files(
        self,
        document: ResultDocument,
        forest: "Forest | None",
        run: Mapping[str, Any],
        figures: "FigureData | None" = None,
    ) -> None:
        """Write the directory of `--out` and the report of `--report`."""
        # pandas and numba take half a second to import; `--help` and input errors must not wait for them.
        from maabo_dist.report.html import report_page  # noqa: PLC0415
        from maabo_dist.report.run_folder import write_folder  # noqa: PLC0415

        if self.out is not None:
            write_folder(self.out, document, forest, run, figures)
        if self.report is not None:
            write_file(self.report, report_page(document, figures))

    def print_rules(self, document: ResultDocument) -> None:
        """Print the rules on stdout."""
        from maabo_dist.report.exports import export_rules  # noqa: PLC0415 - see write_files
        from maabo_dist.report.terminal import print_report, report_console  # noqa: PLC0415

        if self.format == "table":
            print_report(document, report_console(sys.stdout), only_rules=self.quiet, verbose=self.verbose)
            return
        dialect, form = cast("SqlDialect", self.sql_dialect), cast("SqlForm", self.sql_form)
        text = export_rules(document, self.format, self.table_name, dialect, form)
        click.echo(text.encode(), nl=False)  # as bytes: UTF-8 on every system
        for line in document.notes:
            self.note(line)


def check_writable(path: Path) -> None:
    """Raise an error if a file cannot be written here."""
    if path.is_dir():
        raise SettingsError(f"{str(path)!r} is a directory. Give a file name, such as rules.html.")
    if not path.parent.is_dir():
        raise SettingsError(
            f"{str(path)!r}: the directory {str(path.parent)!r} does not exist. Create it, or give another file."
        )
    try:
        with TemporaryFile(dir=path.parent):  # a check of permissions would miss other causes
            pass
    except OSError as error:
        raise SettingsError(f"{str(path)!r} cannot be written ({error.strerror}). Give another file.") from error


def write_file(path: Path, text: str) -> None:
    """Write a file atomically."""
    try:
        with atomic_write(path) as file:
            file.write(text.encode())
    except OSError as error:
        raise SettingsError(f"{str(path)!r}: writing failed ({error.strerror}).") from error
