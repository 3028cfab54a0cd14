"""Options made from settings: one for each field, with its name, its description and its default.

Values are passed on as text. The settings check them, so that a message is the same wherever a setting comes from.
"""

import csv
from collections.abc import Callable, Iterator, Mapping
from functools import partial, reduce
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo

Command = TypeVar("Command", bound=Callable[..., Any])

SECTIONS = ("Table", "Split", "Search", "Rules", "Cluster", "Output", "Other")
_WORDS = {int: "N", float: "NUMBER", str: "TEXT", bool: ""}


class SectionOption(click.Option):
    """An option that knows under which heading the help shows it."""

    def __init__(self, *args: Any, section: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section


class SectionedCommand(click.Command):
    """A command whose help shows its options under headings, in the order of `SECTIONS`."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section by section."""
        for title in SECTIONS:
            options = [option for option in self.get_params(ctx) if _section(option) == title]
            records = [record for option in options if (record := option.get_help_record(ctx)) is not None]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


section_option = partial(click.option, cls=SectionOption)
"""Like `click.option`, with the heading as `section`."""


def all_of(*decorators: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """One decorator for many; the help shows their options in this order."""

    def decorate(command: Command) -> Command:
        # Decorators apply from the bottom up.
        decorated: Command = reduce(lambda made, decorator: decorator(made), reversed(decorators), command)
        return decorated

    return decorate


def settings_options(
    model: type[BaseModel], sections: Mapping[str, str], metavars: Mapping[str, str]
) -> Callable[[Command], Command]:
    """A decorator that gives a command an option for each field of the model.

    `sections` puts fields under headings; its entry "" is for all that are not named. `metavars` replaces the word for
    a value where the type says too little.
    """

    def decorate(command: Command) -> Command:
        # Decorators apply from the bottom up; reversed, the help shows the fields in their order.
        for name, field in reversed(model.model_fields.items()):
            arguments = _arguments(name, field, metavars) | {"section": sections.get(name, sections[""])}
            command = click.option(*_names(name, field), cls=SectionOption, **arguments)(command)
        return command

    return decorate


def given_settings(model: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """Of a command's values, those that the user gave for fields of the model."""
    names = [name for name in model.model_fields if values.get(name) not in (None, ())]
    return {name: _listed(values[name]) if isinstance(values[name], tuple) else values[name] for name in names}


def _section(parameter: click.Parameter) -> str | None:
    """None for arguments, which the usage line shows; click's own options are the others."""
    if isinstance(parameter, SectionOption):
        return parameter.section
    return "Other" if isinstance(parameter, click.Option) else None


def _listed(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The names in repeated and comma-separated options; each is read as a line of CSV, so `"a,b",c` is two names."""
    return tuple(name for text in texts for row in csv.reader([text], skipinitialspace=True) for name in row)


def _names(name: str, field: FieldInfo) -> tuple[str, ...]:
    option = f"--{name.replace('_', '-')}"
    return (f"{option}/--no-{option[2:]}" if field.annotation is bool else option, name)


def _arguments(name: str, field: FieldInfo, metavars: Mapping[str, str]) -> dict[str, Any]:
    arguments: dict[str, Any] = {"default": None, "help": _help(field)}
    if field.annotation is bool:
        return arguments
    metavar = metavars.get(name) or "|".join(dict.fromkeys(_value_words(field.annotation)))
    return arguments | {"type": str, "metavar": metavar, "multiple": get_origin(field.annotation) is tuple}


def _help(field: FieldInfo) -> str:
    default = ",".join(map(str, field.default)) if isinstance(field.default, tuple) else field.default
    shown = default is not None and default is not False and default != ""
    return f"{field.description or ''}{f'  [default: {default}]' if shown else ''}"


def _value_words(annotation: Any) -> Iterator[str]:
    """The words for what a value may be: `median`, `mean`, `N`, `NUMBER`."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        yield from map(str, arguments)
    elif origin is Annotated:
        yield from _value_words(arguments[0])
    elif origin in {Union, UnionType, tuple}:
        for argument in arguments:
            yield from _value_words(argument)
    elif annotation in _WORDS:
        yield _WORDS[annotation]
