"""Options generated from settings models, and `Source`: the table and the settings that `mine` and `submit` share.

There is an option for each field, with its name, description and default.
Values are passed on as text and checked by the settings, so that error messages are the same as elsewhere.
"""

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, Union, get_args, get_origin

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from maabo_dist.console import Command, combine
from maabo_dist.errors import SettingsError
from maabo_dist.settings import MiningSettings, RepeatSettings, TableSettings

if TYPE_CHECKING:
    import pandas as pd

    from maabo_dist.data.preparation import PreparedTable


PAPER = "Selection of the paper, for --preset paper"
SECTIONS = ("Table", "Split", "Findings", "Search", "Rules", "Checks", PAPER, "Cluster", "Output", "Other")
_PLACEHOLDERS = {int: "N", float: "NUMBER", str: "TEXT", bool: ""}


class SectionOption(click.Option):
    """An option with the heading under which the help lists it."""

    def __init__(self, *args: Any, section: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section


class SectionedCommand(click.Command):
    """A command whose help lists options under headings, in the order of `SECTIONS`."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of each section."""
        for title in SECTIONS:
            options = [option for option in self.get_params(ctx) if _section(option) == title]
            records = [record for option in options if (record := option.get_help_record(ctx)) is not None]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


# `click.option` with a heading, `section`.
section_option = partial(click.option, cls=SectionOption)


def settings_options(
    model: type[BaseModel], sections: Mapping[str, str], metavars: Mapping[str, str]
) -> Callable[[Command], Command]:
    """Return a decorator that adds an option for each field of the model.

    `sections` maps fields to headings, with "" for all others. `metavars` overrides the placeholder of a value that
    would be derived from the type.
    """

    def decorate(command: Command) -> Command:
        # Decorators apply from the bottom up; reversed, the help shows the fields in their order.
        for name, field in reversed(model.model_fields.items()):
            option = f"--{name.replace('_', '-')}"
            arguments: dict[str, Any] = {
                "default": None,
                "help": _help(field),
                "section": sections.get(name, sections[""]),
            }
            if field.annotation is bool:
                option = f"{option}/--no-{option[2:]}"
            else:
                metavar = metavars.get(name) or "|".join(dict.fromkeys(_placeholders(field.annotation)))
                arguments |= {"type": str, "metavar": metavar, "multiple": get_origin(field.annotation) is tuple}
            command = section_option(option, name, **arguments)(command)
        return command

    return decorate


def given_settings(model: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a command's values that the user gave for fields of the model."""
    fields = {name: field for name, field in model.model_fields.items() if values.get(name) not in (None, ())}
    return {name: _parse_names(values[name], field) for name, field in fields.items()}


def _parse_names(value: Any, field: FieldInfo) -> Any:
    """Return the names in the texts of an option that can be repeated, group by group if each text is a group."""
    if not isinstance(value, tuple):
        return value
    if get_origin(get_args(field.annotation)[0]) is tuple:
        return tuple(split_names((text,)) for text in value)
    return split_names(value)


def _section(parameter: click.Parameter) -> str | None:
    """Return the heading; None for arguments, which the usage line shows."""
    if isinstance(parameter, SectionOption):
        return parameter.section
    return "Other" if isinstance(parameter, click.Option) else None


def split_names(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Split repeated and comma-separated options, each read as a line of CSV: `"a,b",c` has two names."""
    return tuple(name for text in texts for row in csv.reader([text], skipinitialspace=True) for name in row)


def _help(field: FieldInfo) -> str:
    default = ",".join(map(str, field.default)) if isinstance(field.default, tuple) else field.default
    has_default = default is not None and default is not False and default != ""
    return f"{field.description or ''}{f'  [default: {default}]' if has_default else ''}"


def _placeholders(annotation: Any) -> Iterator[str]:
    """Yield placeholders for the values of a type: `median`, `mean`, `N`, `NUMBER`."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        yield from map(str, arguments)
    elif origin is Annotated:
        yield from _placeholders(arguments[0])
    elif origin in {Union, UnionType, tuple}:
        for argument in arguments:
            yield from _placeholders(argument)
    elif annotation in _PLACEHOLDERS:
        yield _PLACEHOLDERS[annotation]


_TABLE_SECTIONS = {"": "Table"}
_MINING_SECTIONS = (
    {"": "Search"}
    | dict.fromkeys(("split_seed", "test_size", "holdout", "holdout_by", "stratify"), "Split")
    | dict.fromkeys(
        (
            *("preset", "min_samples", "gini", "min_precision", "min_lift", "for_class", "prefer", "max_rules", "all"),
            *("certify", "max_p", "significance"),
        ),
        "Findings",
    )
    | {"probes": "Checks"}
    | dict.fromkeys(("literals", "similarity", "similarity_by"), PAPER)
)
_METAVARS = {
    "target": "COLUMN",
    "group": "COLUMN",
    "time": "COLUMN",
    "weight": "COLUMN",
    "include": "COLUMNS",
    "exclude": "COLUMNS",
    "na_values": "TEXTS",
    "subset_size": "N|N-N",
    "trees": "N|SHARE%",
    "for_class": "CLASSES",
    "always": "COLUMNS",
    "one_of": "COLUMNS",
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
    settings_options(RepeatSettings, {"": "Checks"}, {"consensus": "SHARE"}),
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
            raise SettingsError(f"A file ({data}) and --dataset {dataset} cannot be used together.")
        TableSettings.parse(table)
        return cls(data, dataset, table, mining, repeating)

    @property
    def name(self) -> str:
        """The name of the file or the bundled table."""
        if self.data == "-":
            return "standard input"
        return self.dataset or Path(self.data or "").name

    def read(self) -> "tuple[Path | pd.DataFrame, TableSettings]":
        """Return the path of the file or the bundled table, and the settings to prepare it with."""
        if self.data == "-":  # read once: it cannot be read again
            from maabo_dist.data.readers import read_table  # noqa: PLC0415 - see prepare

            given = TableSettings.parse(self.table)
            return read_table("-", na_values=given.na_values), given
        if self.dataset is None:
            return self._read_files(self.data or ""), TableSettings.parse(self.table)
        from maabo_dist.data.bundled import load_bundled  # noqa: PLC0415 - see prepare

        frame, defaults = load_bundled(self.dataset)
        settings = defaults.model_dump(exclude_unset=True)
        if {"target", "target_above", "target_quantiles"} & self.table.keys():
            # The user gives another target, or another way of cutting it.
            settings.pop("target_above", None)
            settings.pop("target_quantiles", None)
        return frame, TableSettings.parse(settings | self.table)

    def _read_files(self, data: str) -> "Path | pd.DataFrame":
        """Return the path of one file, or the rows of several."""
        from maabo_dist.data.dataset_files import is_dataset  # noqa: PLC0415 - see prepare

        if not is_dataset(data):
            return Path(data)
        from maabo_dist.data.datasets import Dataset  # noqa: PLC0415 - see prepare
        from maabo_dist.data.readers import mask_texts  # noqa: PLC0415

        na_values = TableSettings.parse(self.table).na_values
        return mask_texts(Dataset.open(data, na_values=na_values).read_frame(), na_values)

    def prepare(self) -> "tuple[PreparedTable, TableSettings]":
        """Read and prepare the table, and return it with its settings."""
        # pandas takes half a second to import.
        from maabo_dist.data.column_sources import open_columns  # noqa: PLC0415
        from maabo_dist.data.preparation import prepare  # noqa: PLC0415

        table, settings = self.read()
        opened = open_columns(table, na_values=settings.na_values) if isinstance(table, Path) else table
        return prepare(opened, settings), settings
