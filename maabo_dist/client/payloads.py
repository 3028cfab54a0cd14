"""Values that the client returns, and bodies of requests: job documents, rows to explain, and tables.

Values that the service fills are declared in `maabo_dist.contract.api`.

CSV and Parquet files are sent unchanged. Others are converted here so that the server reads exactly what `maabo mine`
reads: compressed text is decompressed, tabs become commas, and Feather becomes Parquet.
"""

import csv
import gzip
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from math import isnan
from pathlib import Path
from shutil import copyfileobj
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from httpx_sse import ServerSentEvent
from pydantic import TypeAdapter, ValidationError

from maabo_dist._util.files import check_table_file
from maabo_dist._util.settings_model import SettingsModel
from maabo_dist.client.requests import Request
from maabo_dist.contract.api import Explanation, Job, JobProgress
from maabo_dist.contract.job import AnyCallback, Priority, dump_with_secrets
from maabo_dist.contract.problem import document_error
from maabo_dist.errors import DatasetError, SettingsError
from maabo_dist.settings import MiningSettings, TableSettings

if TYPE_CHECKING:
    import pandas as pd


_STATUS_EVENTS = frozenset({"state", "progress", "status"})


class JobStatus(Job):
    """The status of a job; the last four fields are None in lists of jobs.

    Settings are plain values here, so that an older client can read the jobs of a newer server.
    """

    settings: dict[str, Any] | None = None
    table: dict[str, Any] | None = None
    correlation: str | None = None
    # Number of leaves that each filter kept.
    funnel: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a job.

    Attributes
    ----------
    id : str or None
        Pass it to ``events(after=…)`` to continue after this event.
    kind : str
        ``state`` and ``progress`` carry the status of the job, ``rules`` new rules; ``end`` is the last event.
    data : dict
        The content of the event.
    """

    id: str | None
    kind: str
    data: dict[str, Any]

    @classmethod
    def parse(cls, event_id: str | None, message: ServerSentEvent) -> Self | None:
        """Return the event of a message; None for one without JSON, which only keeps the connection alive."""
        try:
            data = json.loads(message.data)
        except ValueError:
            return None
        return cls(event_id, message.event, data if isinstance(data, dict) else {"value": data})

    @property
    def status(self) -> JobProgress | None:
        """The status of the job, if this kind of event carries it."""
        try:
            return JobProgress.model_validate(self.data) if self.kind in _STATUS_EVENTS else None
        except ValidationError:
            return None


Rows: TypeAlias = "pd.DataFrame | Iterable[Mapping[str, Any]]"
# Rows that a server explains in one request.
MAX_EXPLAINED_ROWS = 1000
_CALLBACKS: TypeAdapter[Any] = TypeAdapter(AnyCallback)


def job_document(
    settings: Mapping[str, Any],
    *,
    fresh: bool = False,
    priority: str = "normal",
    callback: Any = None,
    sample: int | None = None,
) -> dict[str, Any]:
    """Return the job document without its dataset; mistakes are reported before anything is sent.

    Only values that were given are included, so that the server's own defaults apply.
    """
    valid_names = {*TableSettings.model_fields, *MiningSettings.model_fields}
    for name in settings:
        if name not in valid_names:
            near = get_close_matches(name, valid_names, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else "`maabo mine --help` lists all settings."
            raise SettingsError(f"There is no setting {name!r}. {hint}", field=name)
    document = {
        "table": _explicit_values(TableSettings, settings),
        "settings": _explicit_values(MiningSettings, settings),
        "priority": _check_priority(priority),
        "fresh": fresh,
    }
    if sample is not None:
        document["sample"] = sample
    return document if callback is None else document | {"callback": _check_callback(callback)}


def rows_to_json(rows: Rows) -> list[list[dict[str, Any]]]:
    """Return one JSON object per row, in chunks for one request each; missing cells become null."""
    frame: Any = rows.to_dict("records") if hasattr(rows, "to_dict") else rows
    records = [{str(name): _cell_to_json(value) for name, value in row.items()} for row in frame]
    return [records[start : start + MAX_EXPLAINED_ROWS] for start in range(0, max(1, len(records)), MAX_EXPLAINED_ROWS)]


def merge_explanations(parts: list[Explanation]) -> Explanation:
    """Combine the explanations of consecutive rows."""
    rules = {name: rule for part in parts for name, rule in part.rules.items()}
    rows = tuple(row for part in parts for row in part.rows)
    return parts[-1].model_copy(update={"rules": rules, "rows": rows})


def _explicit_values(kind: type[SettingsModel], settings: Mapping[str, Any]) -> dict[str, Any]:
    explicit = {name: value for name, value in settings.items() if name in kind.model_fields and value is not None}
    return kind.parse(explicit).model_dump(mode="json", exclude_unset=True)


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


CSV = "text/csv"
PARQUET = "application/vnd.apache.parquet"
MAX_NAME_LENGTH = 200
_TEXT = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_PARQUET = {".parquet", ".pq"}
_FEATHER = {".feather", ".arrow"}
_READ_HERE = {".jsonl", ".ndjson", ".json", ".xlsx", ".xlsm", ".npy"}


def upload_request(table: "str | Path | pd.DataFrame", name: str | None, folder: Path) -> Request:
    """Return the request that uploads a table; a file that has to be converted first is written to `folder`."""
    if isinstance(table, str | Path):
        path = Path(table)
        check_table_file(path)
        name = name or path.name
        media_type, path = _convert(path, folder)
    else:
        media_type, path = PARQUET, folder / "table.parquet"
        _write_frame(table, path)
    params, headers = {"name": (name or "table")[:MAX_NAME_LENGTH]}, {"Content-Type": media_type}
    return Request("POST", "/v1/datasets", params, file=path, headers=headers, idempotent=True, slow=True)


def _convert(path: Path, folder: Path) -> tuple[str, Path]:
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    compressed = suffixes[-1:] == [".gz"] and suffixes[0] in _TEXT
    kind = suffixes[0] if compressed else path.suffix.lower()
    if kind in _PARQUET:
        return PARQUET, path
    if kind in _FEATHER:
        return PARQUET, _feather_to_parquet(path, folder / "table.parquet")
    if kind in _READ_HERE:
        from maabo_dist.data.readers import read_table  # noqa: PLC0415 - 0.3 s, most uploads do not need it

        _write_frame(read_table(path), folder / "table.parquet")
        return PARQUET, folder / "table.parquet"
    if kind not in _TEXT:
        raise DatasetError(
            f"{path} has no known extension. "
            "Use .csv or .tsv (also with .gz), .parquet, .feather, .npy, .jsonl or .xlsx; rename or convert it."
        )
    if compressed:
        path = _decompress(path, folder / "decompressed.csv")
    return CSV, path if _TEXT[kind] == "," else _tabs_to_commas(path, folder / "commas.csv")


def _decompress(path: Path, target: Path) -> Path:
    try:
        with gzip.open(path) as source, target.open("wb") as file:
            copyfileobj(source, file, 1 << 20)
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetError(
            f"{path} cannot be decompressed: {error}. It is damaged or truncated; write it again."
        ) from error
    return target


def _tabs_to_commas(path: Path, target: Path) -> Path:
    csv.field_size_limit(1 << 30)
    try:
        with (
            path.open(encoding="utf-8-sig", newline="") as tabs,
            target.open("w", encoding="utf-8", newline="") as commas,
        ):
            csv.writer(commas).writerows(csv.reader(tabs, delimiter="\t"))
    except (UnicodeDecodeError, csv.Error) as error:
        raise DatasetError(f"{path} cannot be read as tab-separated text: {error}. Correct the file.") from error
    return target


def _feather_to_parquet(path: Path, target: Path) -> Path:
    import pyarrow as pa  # noqa: PLC0415 - 0.1 s, most uploads do not need it
    from pyarrow import parquet  # noqa: PLC0415 - loads pyarrow

    try:
        with pa.OSFile(str(path)) as file:
            parquet.write_table(pa.ipc.open_file(file).read_all(), target)
    except Exception as error:  # pyarrow raises many kinds of errors for damaged files
        raise DatasetError(f"{path} cannot be read as Feather: {error}. Write it again.") from error
    return target


def _write_frame(frame: "pd.DataFrame", target: Path) -> None:
    import pyarrow as pa  # noqa: PLC0415 - 0.1 s, most uploads do not need it
    from pyarrow import parquet  # noqa: PLC0415 - loads pyarrow

    try:
        parquet.write_table(pa.Table.from_pandas(frame, preserve_index=False), target)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DatasetError(f"The DataFrame cannot be sent: {error}. Give each column values of one type.") from error
