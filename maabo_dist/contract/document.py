"""`Record`: the base of all parts of the result document, whose JSON Schema it describes by their docstrings."""

import re
from inspect import cleandoc
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

Count = Annotated[int, Field(strict=True, ge=0)]
Share = Annotated[float, Field(strict=True, ge=0, le=1)]
# Rows of each class, by the name of the class.
Counts = dict[str, Count]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
# The value of a setting; readers may compare and format it without a check of its type.
if TYPE_CHECKING:
    SettingValue = Any
else:
    SettingValue = bool | int | float | str | None | list[str] | list[list[str]]

# The section of a docstring that describes the fields of a record, and an entry of it.
_HEADING = "\n\nAttributes\n----------\n"
_ATTRIBUTE = re.compile(r"^(\w+) : .*\n((?: {4}.*\n?)+)", re.MULTILINE)


def is_none(value: object) -> bool:
    """Return True for a field that is left out of the JSON."""
    return value is None


def is_false(value: object) -> bool:
    """Return True for a flag that is left out of the JSON."""
    return value is False


def is_empty(value: object) -> bool:
    """Return True for a list that is left out of the JSON."""
    return value == ()


class Record(BaseModel):
    """A part of the result document."""

    # Fields that a newer version added are ignored on reading. The schema describes what this version writes.
    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        allow_inf_nan=False,
        populate_by_name=True,
        json_schema_extra={"additionalProperties": False},
    )

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Take the descriptions of the record and its fields from the docstrings."""
        reference = handler(core_schema)
        schema = handler.resolve_ref_schema(reference)
        schema["description"] = cleandoc(cls.__doc__ or "").partition(_HEADING)[0]
        for parent in reversed(cls.__mro__):
            attributes = cleandoc(parent.__doc__ or "").partition(_HEADING)[2]
            for name, description in _ATTRIBUTE.findall(attributes):
                alias = cls.model_fields[name].serialization_alias or name
                field, text = schema["properties"][alias], " ".join(description.split())
                if handler.resolve_ref_schema(field).get("description") != text:
                    field["description"] = text
        return reference

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON values, under the names of the document."""
        return self.model_dump(mode="json", by_alias=True)
