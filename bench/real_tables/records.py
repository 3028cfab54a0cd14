"""Records of runs as lines of JSON: one file for each method, one line for each table, split and version.

Peers run once. Ours runs again whenever its source has changed.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from bench.real_tables.archives import CACHE
from bench.real_tables.scoring import Record

Key = tuple[str, int, str]
"""Table, split and version."""


class Store:
    """The records of all methods; a line that was cut off by an interruption is ignored."""

    def __init__(self, folder: Path = CACHE / "records") -> None:
        self._folder = folder
        self._records: dict[str, dict[Key, Record]] = {}

    def has(self, method: str, table: str, split: int, version: str) -> bool:
        return (table, split, version) in self._of(method)

    def find(self, method: str, table: str, version: str) -> list[Record]:
        """The records of a method for a table, by split."""
        found = [record for key, record in self._of(method).items() if (key[0], key[2]) == (table, version)]
        return sorted(found, key=lambda record: record["split"])

    def add(self, record: Record) -> None:
        self._of(record["method"])[_key(record)] = record
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._path(record["method"]).open("a", encoding="utf-8") as file:
            # The line break comes first too, to end a line that an interruption cut off.
            file.write("\n" + json.dumps(record, ensure_ascii=False) + "\n")

    def versions(self, method: str) -> list[str]:
        """The versions of a method that have records, in the order of their first record."""
        return list(dict.fromkeys(key[2] for key in self._of(method)))

    def _of(self, method: str) -> dict[Key, Record]:
        if method not in self._records:
            self._records[method] = {_key(record): record for record in _read_lines(self._path(method))}
        return self._records[method]

    def _path(self, method: str) -> Path:
        return self._folder / f"{method.lower()}.jsonl"


def _key(record: Record) -> Key:
    return record["table"], record["split"], record["version"]


def _read_lines(path: Path) -> Iterator[Record]:
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for line in file:
            try:
                yield json.loads(line)
            except ValueError:
                continue
