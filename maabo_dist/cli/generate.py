"""`maabo generate` and `maabo score`: write a table with planted rules, and count how many of them were found."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from maabo_dist._util.files import atomic_write
from maabo_dist.cli.options import SectionedCommand, given_settings, section_option, settings_options
from maabo_dist.console import NOTHING, Column, print_table
from maabo_dist.errors import SettingsError
from maabo_dist.research.synthetic.recipe import Recipe

# `maabo --help` imports this module: pandas and pyarrow are imported by the functions that need them.
if TYPE_CHECKING:
    import pandas as pd

    from maabo_dist.research.synthetic.generation import Truth
    from maabo_dist.research.synthetic.scoring import Score

_GENERATE_HELP = """Write TABLE, a CSV or Parquet file with planted rules, and a file that lists them.

\b
  maabo generate table.csv --features 12
  maabo generate wide.parquet --features 1000 --conjunctions 2,3 --xor 1
  maabo mine table.csv --target y --json > rules.json
  maabo score rules.json table.truth.json --data table.csv
"""
_SECTIONS = {"": "Rules"} | dict.fromkeys(
    ("rows", "features", "categorical", "missing", "decoys", "decoy_correlation", "seed"), "Table"
)
_METAVARS = {"conjunctions": "SIZES", "coverage": "SHARE[,SHARE]", "imbalance": "SHARE"}
_EXTENSIONS = (".csv", ".parquet")
_VERDICTS = {"exact": "exactly", "extra": "with 1 extra", "missed": "missed"}

_path = click.Path(path_type=Path)


@click.command("generate", cls=SectionedCommand, help=_GENERATE_HELP, context_settings={"max_content_width": 100})
@click.argument("table", type=_path)
@settings_options(Recipe, _SECTIONS, _METAVARS)
@section_option(
    "--truth", section="Output", metavar="FILE", type=_path, help="File for the truth.  [default: TABLE.truth.json]"
)
def generate_command(table: Path, truth: Path | None, **options: Any) -> int:
    """Write a generated table; the user reads `_GENERATE_HELP`."""
    recipe = Recipe.parse(given_settings(Recipe, options))
    truth_path = truth or table.with_suffix(".truth.json")
    _check_paths(table, truth_path)
    from maabo_dist.research.synthetic.generation import generate  # noqa: PLC0415 - 0.6 s

    frame, planted = generate(recipe)
    _write(table, frame, truth_path, planted)
    click.echo(
        f"Wrote {table} ({recipe.rows:,} rows, {recipe.features:,} features, {recipe.informative:,} of them in "
        f"{len(planted.rules)} planted rules) and {truth_path}."
    )
    return 0


@click.command("score")
@click.argument("rules", type=_path)
@click.argument("truth", type=_path)
@click.option("--data", metavar="TABLE", type=_path, help="The mined table, to compare thresholds and rows by.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def score_command(rules: Path, truth: Path, data: Path | None, as_json: bool) -> int:
    """Score RULES, the output of mine --json, against TRUTH, which generate wrote."""
    from maabo_dist.data.readers import read_table  # noqa: PLC0415 - 0.3 s
    from maabo_dist.report.run_folder import read_run  # noqa: PLC0415 - 0.4 s
    from maabo_dist.research.synthetic.generation import Truth  # noqa: PLC0415 - 0.3 s
    from maabo_dist.research.synthetic.scoring import score  # noqa: PLC0415 - 0.5 s

    planted, (document, _) = Truth.load(truth), read_run(rules)
    result = score(document, planted, None if data is None else read_table(data))
    if as_json:
        click.echo(json.dumps(result.to_json(), indent=2, ensure_ascii=False))
    else:
        _print(result, planted)
    return 0


def _check_paths(table: Path, truth: Path) -> None:
    """Check the paths before any work is done. A table without its truth was not generated and is not overwritten."""
    if table.suffix.lower() not in _EXTENSIONS:
        raise SettingsError(f"{table} is neither a .csv nor a .parquet file. Give a name with one of these endings.")
    if table == truth:
        raise SettingsError(f"--truth {truth} is the table itself. Give another file.")
    for path in (table, truth):
        if not path.parent.is_dir():
            raise SettingsError(f"{path} cannot be written: there is no directory {path.parent}. Make it first.")
    if table.exists() and not truth.exists():
        raise SettingsError(f"{table} exists and was not generated: there is no {truth}. Give another name.")


def _write(table: Path, frame: "pd.DataFrame", truth_path: Path, truth: "Truth") -> None:
    """Write both files or none."""
    import pyarrow as pa  # noqa: PLC0415 - 0.1 s
    from pyarrow import csv, parquet  # noqa: PLC0415 - loads pyarrow

    try:
        with atomic_write(truth_path) as truth_file, atomic_write(table) as table_file:
            truth_file.write(truth.dump().encode())
            rows = pa.Table.from_pandas(frame, preserve_index=False)
            if table.suffix.lower() == ".csv":
                csv.write_csv(rows, table_file)
            else:
                parquet.write_table(rows, table_file)
    except OSError as error:
        raise SettingsError(
            f"{table} and {truth_path} cannot be written ({error.strerror}). Choose other paths."
        ) from error


def _print(result: "Score", truth: "Truth") -> None:
    from maabo_dist.contract.wording import conditions_text  # noqa: PLC0415 - 0.1 s

    columns = [
        Column(title, right=title in {"n", "precision"}) for title in ("planted", "n", "precision", "found", "by")
    ]
    rows = [
        (
            rule.id,
            f"{rule.n:,}",
            NOTHING if rule.precision is None else f"{rule.precision:.2f}",
            _VERDICTS[score.verdict],
            score.by or NOTHING,
            rule.label,
            conditions_text(rule.conditions),
        )
        for score, rule in zip(result.planted, truth.rules, strict=True)
    ]
    print_table([*columns, Column("class", wrap=True), Column("conditions", wrap=True)], rows)
    totals = result.totals
    precision, redundant = totals["fresh_precision"], totals["redundant"]
    recovered = f"{totals['exact']} exactly, {totals['extra']} with an extra literal, {totals['missed']} missed"
    other = f"{totals['with_noise']} with noise columns, {totals['with_decoys']} with decoys"
    repeated = "redundant ones unknown without --data" if redundant is None else f"{redundant} redundant"
    click.echo(f"Of {totals['planted']} planted rules: {recovered}.")
    click.echo(f"Of {totals['mined']} mined rules: {other}, {repeated}.")
    if precision is not None:
        click.echo(f"Their mean precision on fresh rows is {precision:.3f}.")
