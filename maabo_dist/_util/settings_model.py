"""`SettingsModel`: the base of all settings, with errors and documentation made from their fields."""

from inspect import cleandoc
from types import UnionType
from typing import Annotated, Any, Literal, Self, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from maabo_dist._util.text import reworded
from maabo_dist.errors import SettingsError


class SettingsModel(BaseModel):
    """Settings that a user gives: validated, frozen, with errors that name the command-line option."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Insert the section `Parameters`, made from the fields, before the examples of the docstring."""
        super().__pydantic_init_subclass__(**kwargs)
        summary, heading, examples = cleandoc(cls.__doc__ or "").partition("Examples\n--------")
        fields = "\n".join(document_field(name, field) for name, field in cls.model_fields.items())
        cls.__doc__ = f"{summary.rstrip()}\n\nParameters\n----------\n{fields}\n\n{heading}{examples}".rstrip()
        cls.model_config["json_schema_extra"] = {"description": summary.rstrip()}

    @classmethod
    def parse(cls, values: dict[str, Any]) -> Self:
        """Validate, with errors that name the option, the value and the allowed range."""
        try:
            return cls(**values)
        except ValidationError as error:
            raise SettingsError(_explain(error)) from None


def document_field(name: str, field: FieldInfo) -> str:
    """An entry of a numpydoc section."""
    return f"{name} : {_describe_type(field.annotation)}, default {field.default!r}\n    {field.description}"


def _describe_type(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _describe_type(arguments[0])
    if origin in {Union, UnionType}:
        return " or ".join(map(_describe_type, arguments))
    if origin is Literal:
        return " or ".join(map(repr, arguments))
    return str(annotation) if arguments else annotation.__name__.replace("NoneType", "None")


def _explain(error: ValidationError) -> str:
    lines = []
    for problem in error.errors(include_url=False):
        field = str(problem["loc"][0]) if problem["loc"] else ""
        option = f"--{field.replace('_', '-')} {problem['input']!r}: " if field else ""
        message = reworded(str(problem["msg"]))
        line = f"{option}{message[0].lower()}{message[1:]}"
        lines.append(line if line.endswith(".") else f"{line}.")
    return "\n".join(dict.fromkeys(lines))
