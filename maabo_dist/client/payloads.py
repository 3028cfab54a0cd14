"""Bodies of requests: the job document, from keyword arguments, and rows to explain, which may need several."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from math import isnan
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import TypeAdapter, ValidationError

from maabo_dist.contract.api import Explanation
from maabo_dist.contract.job import AnyCallback, Priority, dump_with_secrets
from maabo_dist.contract.problem import document_error
from maabo_dist.errors import SettingsError
from maabo_dist.settings import MiningSettings, SettingsModel, TableSettings

if TYPE_CHECKING:
    import pandas as pd

Rows: TypeAlias = "pd.DataFrame | Iterable[Mapping[str, Any]]"
_CALLBACKS: TypeAdapter[Any] = TypeAdapter(AnyCallback)


def job_document(
    settings: Mapping[str, Any], *, fresh: bool = False, priority: str = "normal", callback: Any = None
) -> dict[str, Any]:
    """Return the job document without its dataset; mistakes are reported before anything is sent.

    Only values that were given are included, so that the server's own defaults apply.
    """
    known = {*TableSettings.model_fields, *MiningSettings.model_fields}
    for name in settings:
        if name not in known:
            raise _unknown_setting(name, known)
    document = {
        "table": _explicit_values(TableSettings, settings),
        "settings": _explicit_values(MiningSettings, settings),
        "priority": _check_priority(priority),
        "fresh": fresh,
    }
    return document if callback is None else document | {"callback": _check_callback(callback)}


def rows_to_json(rows: Rows) -> list[dict[str, Any]]:
    """Return one JSON object per row; missing cells become null."""
    records: Any = rows.to_dict("records") if hasattr(rows, "to_dict") else rows
    return [{str(name): _cell_to_json(value) for name, value in row.items()} for row in records]


def merge_explanations(parts: list[Explanation]) -> Explanation:
    """Combine the explanations of consecutive rows."""
    rules = {name: rule for part in parts for name, rule in part.rules.items()}
    rows = tuple(row for part in parts for row in part.rows)
    return parts[-1].model_copy(update={"rules": rules, "rows": rows})


def _explicit_values(kind: type[SettingsModel], settings: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in settings.items() if name in kind.model_fields and value is not None}
    return kind.parse(given).model_dump(mode="json", exclude_unset=True)


def _unknown_setting(name: str, known: set[str]) -> SettingsError:
    near = get_close_matches(name, known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else " `maabo mine --help` lists all settings."
    return SettingsError(f"There is no setting {name!r}.{hint}", field=name)


def _check_priority(name: str) -> str:
    try:
        return Priority(name).value
    except ValueError:
        names = ", ".join(priority.value for priority in Priority)
        raise SettingsError(f"priority {name!r} is not one of {names}.", field="priority") from None


def _check_callback(callback: Mapping[str, Any]) -> Any:
    try:
        return dump_with_secrets(_CALLBACKS.validate_python(dict(callback)))
    except ValidationError as error:
        problems = [{**one, "loc": ("callback", *one["loc"])} for one in error.errors(include_url=False)]
        raise document_error(problems) from None


def _cell_to_json(value: Any) -> Any:
    """Convert NumPy numbers to Python ones, and NaN, NaT and pandas' NA to None."""
    value = value.item() if hasattr(value, "item") else value
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return None if isnan(value) else value
    text = str(value)
    return None if text in {"NaT", "<NA>"} else text
