"""The processes that read uploaded tables: `python -m scheduler.api.reader_process`.

    readers.py ──folder, socket──► fork ──► request.json ──► limits ──► describe: a preview  ──► answer.json
                                                                        prepare: the file `columns`
                                                                        apply: the file `matches`
                                                                        check: how rules.json performs

The parent process only imports what reading needs, which takes longer than reading a small table, and forks. Each child
limits its own memory, time and files before it opens its table, so a malicious table can only harm its own process.
The answer is `{"result": …}` or `{"error": {kind, detail, field, remedy}}`; without one, the child was killed. The
child sends its process ID over the socket, which closes when it ends.
"""

import errno
import json
import math
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from maabo_dist.contract.result import ResultDocument
from maabo_dist.errors import DatasetError, InputError
from maabo_dist.settings import TableSettings

REQUEST_FILE, ANSWER_FILE, COLUMNS_FILE = "request.json", "answer.json", "columns"
RULES_FILE, MATCHES_FILE = "rules.json", "matches"
MAX_PATH_BYTES, MAX_ANSWER_BYTES = 4096, 64 << 20
MAX_DETAIL = 2000  # characters of an error message, which may quote cells
MAX_NAME, MAX_ALL_NAMES = 1000, 4_000_000  # characters of a column's name, and of all names together
MAX_LEVELS, MAX_LEVEL = 50, 100  # levels of a column in a description, and characters of each
MAX_ALL_LEVELS = 20_000  # levels in one description; later columns are described without levels
NICENESS = 5  # so that the API responds while tables are read
NO_MEMORY, UNEXPECTED = "no-memory", "unexpected"


def main() -> int:
    """Fork a child for each message on stdin, a socket, until it is closed."""
    # Imported here because the API imports constants of this module and must not load these libraries for them.
    # Children inherit them: their memory limit is for what comes on top.
    import maabo_dist.data.preparation  # noqa: PLC0415 - see main()
    import maabo_dist.data.preview  # noqa: PLC0415 - see main()
    import maabo_dist.data.readers  # noqa: PLC0415 - see main()
    import maabo_dist.new_data.use  # noqa: F401, PLC0415 - see main()

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are reaped by the kernel
    with socket.socket(fileno=sys.stdin.fileno()) as control:
        while True:
            folder, files, _, _ = socket.recv_fds(control, MAX_PATH_BYTES, 1)
            if not folder:
                return 0
            if os.fork() == 0:
                os.dup2(os.open(os.devnull, os.O_RDONLY), control.fileno())
                _run_child(folder, files[0])
            os.close(files[0])


def _run_child(folder: bytes, connection: int) -> NoReturn:
    """Answer one request; leave by `_exit`, so that exit handlers of the parent do not run."""
    code = 1
    try:
        os.setsid()
        os.nice(NICENESS)
        os.write(connection, str(os.getpid()).encode())
        os.chdir(folder)
        answer_request()
        code = 0
    finally:
        os._exit(code)


def answer_request() -> None:
    """Answer the request in the current directory, within its limits."""
    request = json.loads(Path(REQUEST_FILE).read_text())
    _set_limits(request["bytes"], request["seconds"])
    try:
        answer = {"result": TASKS[request["task"]](request)}
    except MemoryError:
        answer = {"error": {"kind": NO_MEMORY, "detail": ""}}
    except InputError as error:
        detail = str(error)[:MAX_DETAIL]
        answer = {"error": {"kind": error.kind, "detail": detail, "field": error.field, "remedy": error.remedy}}
    except Exception as error:  # noqa: BLE001 - uploads can break readers in unforeseen ways; the API logs this
        answer = {"error": {"kind": UNEXPECTED, "detail": repr(error)[:MAX_DETAIL]}}
    Path(ANSWER_FILE).write_text(json.dumps(answer, allow_nan=False, ensure_ascii=False), encoding="utf-8")


def describe_table(request: dict[str, Any]) -> dict[str, Any]:
    """Return the size, the columns and the first rows of a table."""
    from maabo_dist.data.preview import preview  # noqa: PLC0415 - see main()

    table = preview(_read_table(request))
    remaining, features = MAX_ALL_LEVELS, []
    for column in table.columns:
        fields = asdict(column)
        description = fields.pop("description")
        levels = None
        if description["levels"] is not None:
            levels = [text[:MAX_LEVEL] for text in description["levels"][: min(MAX_LEVELS, remaining)]]
            remaining -= len(levels)
        features.append(description | fields | {"levels": levels})
    about = {"sample": table.sample, "target": table.target, "notes": table.notes}
    return {"rows": table.rows, "columns": len(features), "features": features, **about}


def prepare_table(request: dict[str, Any]) -> dict[str, Any]:
    """Write the columns of a table to a file; return their fingerprint and notes."""
    from maabo_dist.data.column_sources import open_columns  # noqa: PLC0415 - see main()
    from maabo_dist.data.preparation import prepare  # noqa: PLC0415

    settings, path = TableSettings.model_validate(request["table"]), _check_outline(request)
    source = open_columns(path, na_values=settings.na_values)
    _check_size(request, path, source.names)
    prepared = prepare(source, settings)
    prepared.columns.save(Path(COLUMNS_FILE))
    answer = {"notes": list(prepared.notes), "leaks": list(prepared.leaks)}
    return {"fingerprint": prepared.columns.fingerprint, **answer}


def apply_rules(request: dict[str, Any]) -> dict[str, Any]:
    """Write which rules match each row of a table; return the numbers of rows."""
    from maabo_dist.new_data.use import apply_rules_to_file  # noqa: PLC0415 - see main()

    path = _check_outline(request)
    try:
        with Path(MATCHES_FILE).open("wb") as file:
            summary = apply_rules_to_file(_read_rules(), path, file, form=request["format"], keep=request["keep"])
    except OSError as error:
        if error.errno not in {errno.EFBIG, errno.ENOSPC}:
            raise
        remedy = "Keep fewer columns, use Parquet, or apply the rules to parts of the table."
        raise DatasetError(f"The matches of {path} take too many bytes for this server.", remedy=remedy) from None
    return {"rows": summary.rows, "matched": summary.matched, "notes": list(summary.notes)}


def check_rules(request: dict[str, Any]) -> dict[str, Any]:
    """Return how rules perform on a table."""
    from maabo_dist.new_data.use import check_rules as check  # noqa: PLC0415 - see main()

    options = {name: request[name] for name in ("target", "significance")}
    report = check(_read_rules(), _check_outline(request), name=request["title"], **options).to_json()
    return {"report": report, "notes": report["notes"]}


def _read_rules() -> ResultDocument:
    return ResultDocument.parse_text(Path(RULES_FILE).read_bytes())


TASKS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "describe": describe_table,
    "prepare": prepare_table,
    "apply": apply_rules,
    "check": check_rules,
}


def _read_table(request: dict[str, Any]) -> Any:
    """Check the size that the file states before reading it, and the actual size afterwards."""
    from maabo_dist.data.readers import read_table  # noqa: PLC0415 - see main()

    path = _check_outline(request)
    frame = read_table(path)
    _check_size(request, path, [str(name) for name in frame.columns])
    return frame


def _check_size(request: dict[str, Any], path: Path, names: list[str]) -> None:
    _check_columns(path, len(names), request["columns"])
    _check_names(path, names)


def _check_outline(request: dict[str, Any]) -> Path:
    """Return the file, once the size that it states is known to be within the limits."""
    from maabo_dist.data.readers import outline  # noqa: PLC0415 - see main()

    path = Path(request["file"])
    table_outline = outline(path)
    _check_columns(path, table_outline.columns, request["columns"])
    if table_outline.cells_bytes > request["bytes"]:
        raise DatasetError(
            f"{path} takes at least {table_outline.cells_bytes:,} bytes of memory; the limit of this server is "
            f"{request['bytes']:,}.",
            remedy="Remove columns or rows.",
        )
    return path


def _check_columns(path: Path, columns: int, max_columns: int) -> None:
    if columns > max_columns:
        raise DatasetError(
            f"{path} has {columns:,} columns; the limit of this server is {max_columns:,}.", remedy="Remove columns."
        )


def _check_names(path: Path, names: list[str]) -> None:
    for number, name in enumerate(names, 1):
        if len(name) > MAX_NAME:
            raise DatasetError(
                f"{path}: the name of column {number:,} has {len(name):,} characters and starts with {name[:50]!r}. "
                f"The limit is {MAX_NAME:,}.",
                remedy="Give it a shorter name; the first line of a table is its header.",
            )
    if sum(map(len, names)) > MAX_ALL_NAMES:
        raise DatasetError(
            f"{path}: the column names have more than {MAX_ALL_NAMES:,} characters in total.", remedy="Shorten them."
        )


def _set_limits(memory: int, seconds: float) -> None:
    """Limit this process; `memory` is in addition to what Python and its libraries use already."""
    whole = math.ceil(seconds)
    try:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # a system without /proc does not enforce the limit either
        used = 1 << 30
    _set_limit(resource.RLIMIT_AS, used + memory)
    _set_limit(resource.RLIMIT_CPU, whole, whole + 1)
    _set_limit(resource.RLIMIT_FSIZE, max(memory, MAX_ANSWER_BYTES))
    _set_limit(resource.RLIMIT_CORE, 0)
    signal.alarm(whole + 1)  # in case the API process is gone
    with suppress(OSError):  # if the machine runs out of memory, kill this process rather than the API
        Path("/proc/self/oom_score_adj").write_text("1000")


def _set_limit(limit: int, soft: int, hard: int | None = None) -> None:
    """Set both limits, but never raise the hard limit."""
    _, current = resource.getrlimit(limit)
    hard = soft if hard is None else hard
    hard = hard if current == resource.RLIM_INFINITY else min(hard, current)
    resource.setrlimit(limit, (min(soft, hard), hard))


if __name__ == "__main__":
    sys.exit(main())
