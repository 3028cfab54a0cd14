"""The processes that read tables from outside: `python -m scheduler.api.reader_process`.

    readers ──folder, socket──► fork ──► request.json ──► limits ──► describe: size and columns  ──► answer.json
                                                                     prepare: the file `columns`

The first process only imports what reading needs, which takes longer than reading a small table does, and forks. Each
child limits its own memory, time and files before it looks at its table, so that whatever a table does to its reader,
it does it there. An answer is `{"found": …}` or `{"refused": {kind, detail, field, remedy}}`; none means it was killed.
The socket says the child's number, and ends with it.
"""

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

from maabo_dist.errors import DatasetError, InputError

REQUEST, ANSWER, COLUMNS = "request.json", "answer.json", "columns"
PATH_BYTES, ANSWER_BYTES = 4096, 64 << 20
DETAIL = 2000
"""Characters of a message: it may repeat cells."""
NAME, ALL_NAMES = 1000, 4_000_000
"""Characters of a column's name, and of all of them."""
LEVELS, LEVEL = 50, 100
"""Levels that a description shows of a column, and characters of each."""
ALL_LEVELS = 20_000
"""Levels in one description; the columns after that show none."""
NO_MEMORY, UNEXPECTED = "no-memory", "unexpected"


def main() -> int:
    """Fork a child for each message on stdin, a socket, until there are no more.

    No thread of ours runs here, and what libraries start by being imported holds nothing that a child needs.
    """
    import pyarrow.csv
    import pyarrow.parquet  # noqa: F401 - children limit what comes on top of this

    import maabo_dist.data.description
    import maabo_dist.data.preparation
    import maabo_dist.data.readers  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    with socket.socket(fileno=sys.stdin.fileno()) as control:
        while True:
            folder, files, _, _ = socket.recv_fds(control, PATH_BYTES, 1)
            if not folder:
                return 0
            if os.fork() == 0:
                os.dup2(os.open(os.devnull, os.O_RDONLY), control.fileno())
                _live(folder, files[0])
            os.close(files[0])


def _live(folder: bytes, line: int) -> NoReturn:
    """All that a child does. It leaves by `_exit`: what its parent has open or registered is not its own."""
    code = 1
    try:
        os.setsid()
        os.write(line, str(os.getpid()).encode())
        os.chdir(folder)
        answer_request()
        code = 0
    finally:
        os._exit(code)


def answer_request() -> None:
    """Answer the request in this folder, within its limits."""
    asked = json.loads(Path(REQUEST).read_text())
    _limit(asked["bytes"], asked["seconds"])
    try:
        answer = {"found": ACTS[asked["act"]](asked)}
    except MemoryError:
        answer = {"refused": {"kind": NO_MEMORY, "detail": ""}}
    except InputError as error:
        answer = {"refused": refusal(error)}
    except Exception as error:  # noqa: BLE001 - a table that nobody thought of; the server's log has this
        answer = {"refused": {"kind": UNEXPECTED, "detail": repr(error)[:DETAIL]}}
    Path(ANSWER).write_text(json.dumps(answer, allow_nan=False, ensure_ascii=False), encoding="utf-8")


def refusal(error: InputError) -> dict[str, Any]:
    """An error as plain values."""
    return {"kind": error.kind, "detail": str(error)[:DETAIL], "field": error.field, "remedy": error.remedy}


def described(asked: dict[str, Any]) -> dict[str, Any]:
    """The size and the columns of a table that has not too many of them."""
    from maabo_dist.data.description import describe

    frame = _read(asked, ())
    left, features = ALL_LEVELS, []
    for column in describe(frame):
        shown = None if column.levels is None else [text[:LEVEL] for text in column.levels[: min(LEVELS, left)]]
        left -= len(shown or ())
        features.append(asdict(column) | {"levels": shown})
    return {"rows": len(frame), "columns": len(features), "features": features}


def prepared(asked: dict[str, Any]) -> dict[str, Any]:
    """Write the columns that a job works on."""
    from maabo_dist.data.preparation import prepare
    from maabo_dist.settings import TableSettings

    settings = TableSettings.model_validate(asked["table"])
    ready = prepare(_read(asked, settings.na_values), settings)
    ready.columns.save(Path(COLUMNS))
    return {"fingerprint": ready.columns.fingerprint, "notes": list(ready.notes)}


ACTS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {"describe": described, "prepare": prepared}


def _read(asked: dict[str, Any], na_values: tuple[str, ...]) -> Any:
    """The table, if what it says of itself is within the limits."""
    from maabo_dist.data.description import outline
    from maabo_dist.data.readers import read_table

    path = Path(asked["file"])
    about = outline(path)
    _check_columns(path, about.columns, asked["columns"])
    if about.cells_bytes > asked["bytes"]:
        raise DatasetError(
            f"{path} takes {about.cells_bytes:,} bytes of memory or more; this server reads up to {asked['bytes']:,}.",
            remedy="Leave out columns or rows.",
        )
    frame = read_table(path, na_values=na_values)
    _check_columns(path, len(frame.columns), asked["columns"])
    _check_names(path, [str(name) for name in frame.columns])
    return frame


def _check_columns(path: Path, columns: int, most: int) -> None:
    if columns > most:
        raise DatasetError(
            f"{path} has {columns:,} columns; this server reads up to {most:,}.", remedy="Leave out columns."
        )


def _check_names(path: Path, names: list[str]) -> None:
    for place, name in enumerate(names, 1):
        if len(name) > NAME:
            raise DatasetError(
                f"{path}: the name of column {place:,} has {len(name):,} characters; it begins with {name[:50]!r}. "
                f"Names may have {NAME:,}.",
                remedy="Give it a shorter name; the first line of a table is its header.",
            )
    if sum(map(len, names)) > ALL_NAMES:
        raise DatasetError(
            f"{path}: the names of its columns have more than {ALL_NAMES:,} characters.", remedy="Shorten them."
        )


def _limit(memory: int, seconds: float) -> None:
    """From now on; `memory` comes on top of what Python and its libraries take."""
    whole = math.ceil(seconds)
    _set(resource.RLIMIT_AS, _own_bytes() + memory)
    _set(resource.RLIMIT_CPU, whole, whole + 1)
    _set(resource.RLIMIT_FSIZE, max(memory, ANSWER_BYTES))
    _set(resource.RLIMIT_CORE, 0)
    signal.alarm(whole + 1)  # even if the server that waits for us is gone
    with suppress(OSError):  # where memory runs short, rather this than the server
        Path("/proc/self/oom_score_adj").write_text("1000")


def _set(limit: int, value: int, last: int | None = None) -> None:
    """The hard limit too, unless it is lower already."""
    _, hard = resource.getrlimit(limit)
    last = value if last is None else last
    last = last if hard == resource.RLIM_INFINITY else min(last, hard)
    resource.setrlimit(limit, (min(value, last), last))


def _own_bytes() -> int:
    """Address space in use. Where the system does not tell, it has no such limit either."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 1 << 30


if __name__ == "__main__":
    sys.exit(main())
