"""`CountTask`: the task `maabo.count`, a pass over some rows of a dataset. `row_passes` does the work."""

from collections.abc import Callable
from typing import Any

from maabo_dist.contract import messages, names
from maabo_dist.errors import DatasetError, SettingsError
from workers.base import AnsweringTask, TaskResult


class CountTask(AnsweringTask):
    """Reads some blocks of the rows of a dataset."""

    name = names.COUNT
    answer = messages.CountAnswer
    key_fields = ("number", "start", "stop", "attempt")

    def decode(self, message: dict[str, Any]) -> Callable[[], TaskResult]:
        """Read the message and fetch what the pass needs; return what is to be done."""
        from workers.row_passes import PassRunner  # noqa: PLC0415 - pandas and pyarrow, which other tasks do not need

        return PassRunner(self._settings, self._cache, self.end_check).decode(message)

    def compute(self, task: Callable[[], TaskResult]) -> TaskResult:
        """Run the pass on these blocks."""
        return task()

    def failure_fields(self, message: dict[str, Any], error: BaseException) -> dict[str, Any]:
        """Say that a plan fails on every worker; a block of rows is tried elsewhere, where its file may be found."""
        return {"permanent": message.get("kind") == "plan" and isinstance(error, DatasetError | SettingsError)}

    def _reply(self, message: dict[str, Any], kind: messages.Outcome, reason: str = "", **fields: Any) -> str:
        """Answer without the address of the table directory, which tenants need not know."""
        if reason:
            from maabo_dist.cluster.table_directory import hide_root  # noqa: PLC0415 - see decode

            reason = hide_root(self._settings.tables_url, reason)
        return super()._reply(message, kind, reason, **fields)
