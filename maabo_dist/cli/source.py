"""What is mined: the options that name a table and say how to mine it, and the reading of the table."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import click

from maabo_dist.cli.options import all_of, given_settings, section_option, settings_options
from maabo_dist.errors import SettingsError
from maabo_dist.settings import MiningSettings, RepeatSettings, TableSettings

if TYPE_CHECKING:
    import pandas as pd

    from maabo_dist.data.preparation import PreparedTable

_TABLE_SECTIONS = {"": "Table"}
_MINING_SECTIONS = (
    {"": "Search"}
    | dict.fromkeys(("split_seed", "test_size", "holdout", "stratify"), "Split")
    | dict.fromkeys(
        ("min_samples", "gini", "similarity", "similarity_by", "literals", "significance", "probes"), "Rules"
    )
)
_METAVARS = {
    "target": "COLUMN",
    "include": "COLUMNS",
    "exclude": "COLUMNS",
    "na_values": "TEXTS",
    "subset_size": "N|N-N",
    "trees": "N|SHARE%",
}

source_options = all_of(
    click.argument("data", required=False),
    section_option(
        "--dataset",
        section="Table",
        metavar="NAME",
        help="Instead of a file, a bundled table: diabetes, breast_cancer, wine or titanic (fetched from OpenML).",
    ),
    settings_options(TableSettings, _TABLE_SECTIONS, _METAVARS),
    settings_options(MiningSettings, _MINING_SECTIONS, _METAVARS),
    settings_options(RepeatSettings, {"": "Rules"}, {"consensus": "SHARE"}),
)


@dataclass(frozen=True, slots=True)
class Source:
    """Where the table comes from, a file or a bundled one, and how it is mined."""

    data: str | None
    dataset: str | None
    table: dict[str, Any]
    """The table settings that the user gave."""
    mining: MiningSettings
    repeating: RepeatSettings

    @classmethod
    def given(cls, values: Mapping[str, Any]) -> Self:
        """From a command's values. Mistakes are met before the slow imports."""
        table = given_settings(TableSettings, values)
        mining = MiningSettings.parse(given_settings(MiningSettings, values))
        repeating = RepeatSettings.parse(given_settings(RepeatSettings, values))
        data, dataset = values["data"], values["dataset"]
        if data is None and dataset is None:
            raise SettingsError("No table is given. Name a file, or a bundled table with --dataset diabetes.")
        if data is not None and dataset is not None:
            raise SettingsError(f"Both a file ({data}) and --dataset {dataset} are given. Give one of them.")
        TableSettings.parse(table)
        return cls(data, dataset, table, mining, repeating)

    @property
    def name(self) -> str:
        """Of the file or the bundled table."""
        return self.dataset or Path(self.data or "").name

    def raw(self) -> "tuple[Path | pd.DataFrame, TableSettings]":
        """The file or the bundled table as it is, and how it is to be prepared."""
        if self.dataset is None:
            return Path(self.data or ""), TableSettings.parse(self.table)
        from maabo_dist.data.bundled import load_bundled

        frame, defaults = load_bundled(self.dataset)
        return frame, TableSettings.parse(_without_overruled(defaults, self.table) | self.table)

    def prepared(self) -> "tuple[PreparedTable, TableSettings]":
        """The table, ready to be mined, and the settings that made it so."""
        from maabo_dist.data.preparation import prepare
        from maabo_dist.data.readers import read_table

        table, settings = self.raw()
        frame = read_table(table, na_values=settings.na_values) if isinstance(table, Path) else table
        return prepare(frame, settings), settings


def _without_overruled(defaults: TableSettings, given: Mapping[str, Any]) -> dict[str, Any]:
    """A bundled table's settings; its way to cut the target goes when another target or another cut is given."""
    kept = defaults.model_dump(exclude_unset=True)
    if {"target", "target_above", "target_quantiles"} & given.keys():
        kept.pop("target_above", None)
        kept.pop("target_quantiles", None)
    return kept
