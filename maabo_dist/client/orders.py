"""A job as it is asked for: keywords sorted into the settings that they belong to."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pydantic import TypeAdapter, ValidationError

from maabo_dist.contract.job import AnyCallback, Priority, dump_with_secrets
from maabo_dist.contract.problem import document_error
from maabo_dist.errors import SettingsError
from maabo_dist.settings import MiningSettings, SettingsModel, TableSettings

_CALLBACKS: TypeAdapter[Any] = TypeAdapter(AnyCallback)


@dataclass(frozen=True, slots=True)
class Order:
    """How a table is to be mined, and what else is asked for."""

    table: TableSettings
    mining: MiningSettings
    key: str | None = None
    """Of idempotency: with the same one, the same job."""
    fresh: bool = False
    priority: Priority = Priority.NORMAL
    callback: Any = None

    def to_json(self) -> dict[str, Any]:
        """What was given, and not what is left to the server."""
        asked: dict[str, Any] = {
            "table": _given(self.table),
            "settings": _given(self.mining),
            "priority": self.priority.value,
            "fresh": self.fresh,
        }
        return asked if self.callback is None else asked | {"callback": dump_with_secrets(self.callback)}


def order_of(
    settings: Mapping[str, Any],
    *,
    key: str | None = None,
    fresh: bool = False,
    priority: str = "normal",
    callback: Mapping[str, Any] | None = None,
) -> Order:
    """From keywords, whose mistakes are met before anything is sent."""
    known = {*TableSettings.model_fields, *MiningSettings.model_fields}
    for name in settings:
        if name not in known:
            raise _unknown(name, known)
    table = TableSettings.parse(_of(TableSettings, settings))
    return Order(
        table, MiningSettings.parse(_of(MiningSettings, settings)), key, fresh, _priority(priority), _callback(callback)
    )


def _of(kind: type[SettingsModel], settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name in kind.model_fields and value is not None}


def _given(settings: SettingsModel) -> dict[str, Any]:
    return settings.model_dump(mode="json", exclude_unset=True)


def _unknown(name: str, known: set[str]) -> SettingsError:
    near = get_close_matches(name, known, n=1)
    hint = f" Is {near[0]!r} meant?" if near else " `maabo mine --help` lists them all."
    return SettingsError(f"There is no setting {name!r}.{hint}", field=name)


def _priority(name: str) -> Priority:
    try:
        return Priority(name)
    except ValueError:
        names = ", ".join(priority.value for priority in Priority)
        raise SettingsError(f"priority {name!r} is none of {names}.", field="priority") from None


def _callback(given: Mapping[str, Any] | None) -> Any:
    try:
        return None if given is None else _CALLBACKS.validate_python(dict(given))
    except ValidationError as error:
        found = [{**one, "loc": ("callback", *one["loc"])} for one in error.errors(include_url=False)]
        raise document_error(found) from None
