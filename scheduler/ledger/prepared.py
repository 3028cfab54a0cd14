"""`PreparingConnection`: pg8000 with prepared statements.

Each time pg8000 executes a statement, it scans its text for parameters, character by character, and makes three round
trips to the server. The ledger executes the same statements again and again. From their second use on, they are
prepared: no scan, and one round trip. Statements whose results nobody needs take no round trip at all: they are sent
together with the next statement.
"""

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pg8000.converters import make_params  # type: ignore[import-untyped]  # ships no types
from pg8000.core import SYNC, Context  # type: ignore[import-untyped]  # ships no types
from pg8000.dbapi import convert_paramstyle  # type: ignore[import-untyped]
from pg8000.exceptions import DatabaseError, InterfaceError  # type: ignore[import-untyped]
from pg8000.legacy import Connection, Cursor  # type: ignore[import-untyped]

MAX_STATEMENTS = 200  # that a connection remembers
# The server has dropped the statement, or a migration has changed the type of its result.
_STALE = {"26000", "0A000"}


class _Execution(str):
    """A statement with its parameters, in a form that passes pg8000's cursor, which handles errors, unchanged."""

    __slots__ = ("parameters",)

    parameters: Sequence[Any]


@dataclass(slots=True)
class _Statement:
    text: str  # with $1, $2, … as parameters
    prepared: tuple[bytes, Any, Any] | None = None  # name, columns and the functions that read them


class PreparingConnection(Connection):  # type: ignore[misc]  # has no types
    """A connection that prepares statements when they are executed for the second time."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._statements: OrderedDict[str, _Statement] = OrderedDict()
        self._unread: list[Context] = []  # of statements that were sent, and whose responses were not read yet
        self.defers = False  # send prepared statements with the next one that is not deferred
        self._deferred: _Statement | None = None  # the one that was sent last, if the server need not respond to it yet
        super().__init__(*args, **options)

    def cursor(self) -> Cursor:
        """Return a cursor; SQLAlchemy executes everything through it."""
        return _PreparingCursor(self)

    def begin(self, statement: str) -> None:
        """Begin a transaction with the next statement."""
        self.send_QUERY(statement)
        self._unread.append(Context(statement))

    def commit(self) -> None:
        """Commit the transaction, or raise the error of a deferred statement, which has rolled it back."""
        self.cursor().execute("commit")

    def rollback(self) -> None:
        """Roll the transaction back, if there is one."""
        if self._unread or self._in_transaction:
            with suppress(DatabaseError, InterfaceError):  # of deferred statements
                self.execute_simple("rollback")

    def handle_messages(self, context: Context) -> None:
        """Read the responses of deferred statements and of this one; raise the first error."""
        unread, self._unread = [*self._unread, context], []
        error = None
        for each in unread:
            try:
                super().handle_messages(each)
            except (DatabaseError, InterfaceError) as failure:  # the latter for statements after one that failed
                error = error or failure
        if error is not None:
            raise error

    def execute_simple(self, statement: str) -> Any:
        """Execute a statement; pg8000 expects none with parameters here."""
        if isinstance(statement, _Execution):
            return self._execute(statement)
        self._request_responses()
        return super().execute_simple(statement)

    def _execute(self, execution: _Execution) -> Any:
        statement = self._statements.get(execution)
        if statement is None or statement is not self._deferred or not self.defers:
            self._request_responses()
        if statement is None:
            text, _ = convert_paramstyle("format", execution, execution.parameters)
            self._remember(str(execution), _Statement(text))
            return self.execute_unnamed(text, vals=execution.parameters)
        self._statements.move_to_end(execution)
        if statement.prepared is None:
            statement.prepared = self.prepare_statement(statement.text, ())
        name, columns, readers = statement.prepared
        parameters = make_params(self.py_types, execution.parameters)
        if self.defers:
            return self._defer(statement, parameters)
        try:
            return self.execute_named(name, parameters, columns, readers, statement.text)
        except DatabaseError as error:
            if isinstance(error.args[0], dict) and error.args[0].get("C") in _STALE:
                del self._statements[execution]  # prepared anew when the caller tries again
            raise

    def _defer(self, statement: _Statement, parameters: Sequence[str | None]) -> Context:
        """Send a statement. The server responds to several executions of a statement together."""
        name, columns, readers = statement.prepared or (b"", None, None)
        if statement is not self._deferred:
            self._deferred = statement
            self._unread.append(Context(columns=columns, input_funcs=readers, statement=statement.text))
        self.send_BIND(name, parameters)
        self.send_EXECUTE()
        return self._unread[-1]

    def _request_responses(self) -> None:
        """Have the server respond to the deferred executions, before anything else is sent."""
        if self._deferred is not None:
            self._deferred = None
            self._send_message(SYNC, b"")

    def _remember(self, text: str, statement: _Statement) -> None:
        self._statements[text] = statement
        if len(self._statements) > MAX_STATEMENTS:
            _, oldest = self._statements.popitem(last=False)
            if oldest.prepared is not None:
                self.close_prepared_statement(oldest.prepared[0])


class _PreparingCursor(Cursor):  # type: ignore[misc]
    def execute(self, operation: str, args: Sequence[Any] = (), stream: Any = None) -> Cursor:
        if not args or stream is not None:
            return super().execute(operation, args, stream)
        execution = _Execution(operation)
        execution.parameters = args
        return super().execute(execution)
