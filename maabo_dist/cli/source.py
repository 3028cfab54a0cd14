"""`Source`: the table to mine and the mining settings, from the options that `mine` and `submit` share."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import click

from maabo_dist.cli.options import given_settings, section_option, settings_options
from maabo_dist.console.commands import combine
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

source_options = combine(
    click.argument("data", required=False),
    section_option(
        "--dataset",
        section="Table",
        metavar="NAME",
        help="A bundled table instead of a file: diabetes, breast_cancer, wine or titanic (fetched from OpenML).",
    ),
    settings_options(TableSettings, _TABLE_SECTIONS, _METAVARS),
    settings_options(MiningSettings, _MINING_SECTIONS, _METAVARS),
    settings_options(RepeatSettings, {"": "Rules"}, {"consensus": "SHARE"}),
)


@dataclass(frozen=True, slots=True)
class Source:
    """A table, from a file or bundled, and the settings to mine it with."""

    data: str | None
    dataset: str | None
    # The table settings given by the user.
    table: dict[str, Any]
    mining: MiningSettings
    repeating: RepeatSettings

    @classmethod
    def from_options(cls, values: Mapping[str, Any]) -> Self:
        """Take the source from a command's values, and check all settings before the slow imports."""
        table = given_settings(TableSettings, values)
        mining = MiningSettings.parse(given_settings(MiningSettings, values))
        repeating = RepeatSettings.parse(given_settings(RepeatSettings, values))
        data, dataset = values["data"], values["dataset"]
        if data is None and dataset is None:
            raise SettingsError("No table is given. Give a file, or a bundled table such as --dataset diabetes.")
        if data is not None and dataset is not None:
            raise SettingsError(f"A file ({data}) and --dataset {dataset} are both given. Give only one of them.")
        TableSettings.parse(table)
        return cls(data, dataset, table, mining, repeating)

    @property
    def name(self) -> str:
        """The name of the file or the bundled table."""
        return self.dataset or Path(self.data or "").name

    def read(self) -> "tuple[Path | pd.DataFrame, TableSettings]":
        """Return the path of the file or the bundled table, and the settings to prepare it with."""
        if self.dataset is None:
            return Path(self.data or ""), TableSettings.parse(self.table)
        from maabo_dist.data.bundled import load_bundled  # noqa: PLC0415 - see prepare

        frame, defaults = load_bundled(self.dataset)
        return frame, TableSettings.parse(_drop_overridden(defaults, self.table) | self.table)

    def prepare(self) -> "tuple[PreparedTable, TableSettings]":
        """Read and prepare the table, and return it with its settings."""
        # pandas takes half a second to import.
        from maabo_dist.data.preparation import prepare  # noqa: PLC0415
        from maabo_dist.data.readers import read_table  # noqa: PLC0415

        table, settings = self.read()
        frame = read_table(table, na_values=settings.na_values) if isinstance(table, Path) else table
        return prepare(frame, settings), settings


def _drop_overridden(defaults: TableSettings, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return a bundled table's settings, without its way of cutting the target if the user gives another."""
    settings = defaults.model_dump(exclude_unset=True)
    if {"target", "target_above", "target_quantiles"} & overrides.keys():
        settings.pop("target_above", None)
        settings.pop("target_quantiles", None)
    return settings
