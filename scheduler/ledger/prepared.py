"""`PreparingConnection`: pg8000 with prepared statements and few messages.

Each time pg8000 executes a statement, it scans its text for parameters, character by character, and makes three round
trips to the server. It also has the server send each part of a response at once, and each packet wakes the thread that
waits for it. The ledger executes the same statements again and again. From their second use on, they are prepared: no
scan, one round trip, and one packet. Statements whose results nobody needs take no round trip at all: they are sent
together with the next statement, or with the commit. So are the beginnings of transactions.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pg8000.converters import make_params  # type: ignore[import-untyped]  # ships no types
from pg8000.core import (  # type: ignore[import-untyped]  # ships no types
    BIND,
    BIND_COMPLETE,
    EXECUTE_MSG,
    NULL_BYTE,
    PARSE,
    READY_FOR_QUERY,
    SYNC_MSG,
    Context,
    H_pack,
    ci_unpack,
    i_pack,
    i_unpack,
)
from pg8000.core import _flush as flush
from pg8000.core import _read as read
from pg8000.core import _write as write
from pg8000.dbapi import convert_paramstyle  # type: ignore[import-untyped]
from pg8000.exceptions import DatabaseError, InterfaceError  # type: ignore[import-untyped]
from pg8000.legacy import Connection, Cursor  # type: ignore[import-untyped]

MAX_STATEMENTS = 200  # that a connection remembers
# Rows that a process remembers, and their size.
MAX_ROWS, MAX_ROW_BYTES = 2000, 4096
# The server has dropped the statement, or a migration has changed the type of its result.
_STALE = {"26000", "0A000"}
_Readers = tuple[Callable[[str], Any], ...]


class _Execution(str):
    """A statement with its parameters, in a form that passes pg8000's cursor, which handles errors, unchanged."""

    __slots__ = ("parameters",)

    parameters: Sequence[Any]


@dataclass(slots=True)
class _Statement:
    text: str  # with $1, $2, … as parameters
    prepared: tuple[bytes, Any, _Readers] | None = None  # name, columns and the functions that read them


class PreparingConnection(Connection):  # type: ignore[misc]  # has no types
    """A connection that prepares statements when they are executed for the second time."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._statements: OrderedDict[str, _Statement] = OrderedDict()
        self.defers = False  # send prepared statements with the next one that is not deferred
        self._sent: list[Context] = []  # executions to which the server has not been asked to respond yet
        self._requested: list[list[Context]] = []  # those to which it has; it stops at the first error in each list
        super().__init__(*args, **options)

    def cursor(self) -> "_PreparingCursor":
        """Return a cursor; SQLAlchemy executes everything through it."""
        return _PreparingCursor(self)

    def begin(self, statement: str) -> None:
        """Begin a transaction with the next statement."""
        self._send_unprepared(statement)

    def commit(self) -> None:
        """Commit the transaction; if a deferred statement fails, roll it back and raise the error."""
        try:
            self.cursor().commit()
        except Exception:
            self.rollback()
            raise

    def rollback(self) -> None:
        """Roll the transaction back, if there is one."""
        if self._sent or self._requested or self._in_transaction:
            with suppress(DatabaseError, InterfaceError):  # of deferred statements
                self.execute_simple("rollback")

    def handle_messages(self, context: Context) -> None:
        """Read the responses to deferred executions and to this one; raise the first error."""
        self._requested.append([context])
        self.read_responses()

    def handle_DATA_ROW(self, data: bytes, context: Context) -> None:  # noqa: N802 - pg8000's own name
        """Read a row."""
        if len(data) > MAX_ROW_BYTES or not isinstance(context.input_funcs, tuple):
            super().handle_DATA_ROW(data, context)
        else:
            context.rows.append(read_row(data, context.input_funcs, self._client_encoding))

    def execute_simple(self, statement: str) -> Any:
        """Execute a statement; pg8000 expects none with parameters here."""
        if isinstance(statement, _Execution):
            return self._execute(statement) if statement.parameters else self._execute_unprepared(statement)
        self._request_responses()
        return super().execute_simple(statement)

    def _execute_unprepared(self, statement: str) -> Context:
        context = self._send_unprepared(statement)
        self._wait_for_responses()
        return context

    def _execute(self, execution: _Execution) -> Context:
        statement = self._statements.get(execution)
        if statement is None:
            self._request_responses()
            text, _ = convert_paramstyle("format", execution, execution.parameters)
            self._remember(str(execution), _Statement(text))
            return self.execute_unnamed(text, vals=execution.parameters)
        self._statements.move_to_end(execution)
        if statement.prepared is None:
            self._request_responses()
            name, columns, readers = self.prepare_statement(statement.text, ())
            statement.prepared = name, columns, tuple(readers)
        name, columns, readers = statement.prepared
        context = Context(columns=columns, input_funcs=readers, statement=statement.text)
        self._send(name, make_params(self.py_types, execution.parameters), context)
        if not self.defers:
            self._wait_for_responses()
        return context

    def _send_unprepared(self, statement: str) -> Context:
        """Send a statement without parameters and without a result."""
        self._send_message(PARSE, NULL_BYTE + statement.encode() + NULL_BYTE + H_pack(0))
        context = Context(statement)
        self._send(NULL_BYTE, (), context)
        return context

    def _send(self, name: bytes, parameters: Sequence[str | None], context: Context) -> None:
        """Send an execution. Unlike pg8000's own methods, this does not have the server respond at once."""
        parts = [NULL_BYTE, name, H_pack(0), H_pack(len(parameters))]
        for value in parameters:
            if value is None:
                parts.append(i_pack(-1))
            else:
                encoded = value.encode(self._client_encoding)
                parts += [i_pack(len(encoded)), encoded]
        parts.append(H_pack(0))
        self._send_message(BIND, b"".join(parts))
        write(self._sock, EXECUTE_MSG)
        self._sent.append(context)

    def _request_responses(self) -> None:
        """Have the server respond to the executions that were sent, before anything else is sent."""
        if self._sent:
            write(self._sock, SYNC_MSG)
            self._requested.append(self._sent)
            self._sent = []

    def _wait_for_responses(self) -> None:
        self._request_responses()
        flush(self._sock)
        self.read_responses()

    def read_responses(self) -> None:
        """Read all responses that were requested; raise the first error."""
        requested, self._requested = self._requested, []
        for executions in requested:
            self._read_group(executions)
        errors = [each.error for executions in requested for each in executions if each.error is not None]
        if errors:
            if isinstance(errors[0].args[0], dict) and errors[0].args[0].get("C") in _STALE:
                self._statements.clear()  # prepared anew when the caller tries again
            raise errors[0]

    def _read_group(self, executions: list[Context]) -> None:
        """Read until the server is ready. The responses to each execution begin with that to its parameters."""
        following, context, code = iter(executions), executions[0], None
        while code != READY_FOR_QUERY:
            code, length = ci_unpack(read(self._sock, 5))
            if code == BIND_COMPLETE:
                context = next(following)
            self.message_types[code](read(self._sock, length - 4), context)

    def _remember(self, text: str, statement: _Statement) -> None:
        self._statements[text] = statement
        if len(self._statements) > MAX_STATEMENTS:
            _, oldest = self._statements.popitem(last=False)
            if oldest.prepared is not None:
                self.close_prepared_statement(oldest.prepared[0])


@lru_cache(maxsize=MAX_ROWS)
def read_row(data: bytes, readers: _Readers, encoding: str) -> tuple[Any, ...]:
    """Return the values of a row. Most rows are read again and again, and rarely change in between.

    All types of the ledger's columns have immutable values.
    """
    values: list[Any] = []
    position = 2
    for reader in readers:
        (length,) = i_unpack(data, position)
        position += 4
        if length == -1:
            values.append(None)
        else:
            values.append(reader(str(data[position : position + length], encoding)))
            position += length
    return tuple(values)


class _PreparingCursor(Cursor):  # type: ignore[misc]
    def execute(self, operation: str, args: Sequence[Any] = (), stream: Any = None) -> Cursor:
        if not args or stream is not None:
            return super().execute(operation, args, stream)
        return self._execute(operation, args)

    def commit(self) -> None:
        """Send the commit together with deferred statements."""
        self._execute("commit", ())

    def _execute(self, operation: str, args: Sequence[Any]) -> Cursor:
        execution = _Execution(operation)
        execution.parameters = args
        return super().execute(execution)
