"""`ArtifactStore`: files by name, in a directory, in a bucket or in memory. Tables and pooled trees lie in it.

A name says what the content must be (a table's fingerprint, a digest): a file is written once and never changed.
Writing is all or nothing, and reading copies to a local file that the caller verifies before use.
"""

import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from maabo_dist.atomic import replacing
from maabo_dist.errors import MaaboError, SettingsError

_NAME = re.compile(r"^[a-z]+/[0-9a-f]{32,64}$")


class StoreError(MaaboError):
    """The store cannot be reached or refuses; another attempt may do better."""


class MissingArtifactError(StoreError):
    """The store holds no artifact of that name."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """One stored file."""

    name: str
    size: int
    modified: float
    """Seconds since the epoch."""


class ArtifactStore(Protocol):
    """Where artifacts lie."""

    def has(self, name: str) -> bool:
        """Whether an artifact of that name is there."""

    def put(self, name: str, source: Path) -> None:
        """Store a local file, whole or not at all; does nothing if the name is there already."""

    def get(self, name: str, target: Path) -> None:
        """Copy an artifact to a local file; MissingArtifactError if there is none."""

    def delete(self, name: str) -> None:
        """Remove an artifact; no error if there is none."""

    def list(self) -> Iterator[Artifact]:
        """Everything that is stored."""


def checked_name(name: str) -> str:
    """Names never become paths unless they look like `columns/<hex digest>`."""
    if not _NAME.match(name):
        raise SettingsError(f"{name!r} is not the name of an artifact; names look like columns/<hex digest>.")
    return name


class FileStore:
    """A directory, or any place that fsspec reaches (`s3://bucket/prefix` with the extra `s3`)."""

    def __init__(self, url: str) -> None:
        import fsspec  # not needed by who only mines in one process

        try:
            filesystem, root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise SettingsError(f"The artifact store {url!r} cannot be used: {error}.") from error
        self._files: Any = filesystem
        self._root = root.rstrip("/")
        self._local = "file" in filesystem.protocol

    def has(self, name: str) -> bool:
        """Whether an artifact of that name is there."""
        return bool(self._reached(lambda: self._files.exists(self._path(name))))

    def put(self, name: str, source: Path) -> None:
        """Store a local file: copied under a temporary name, flushed, renamed."""
        if self.has(name):
            return
        if self._local:
            self._reached(lambda: _copy_atomically(source, Path(self._path(name))))
        else:  # an object store shows an upload when it is complete
            self._reached(lambda: self._files.put_file(str(source), self._path(name)))

    def get(self, name: str, target: Path) -> None:
        """Copy an artifact to a local file."""
        if not self.has(name):
            raise MissingArtifactError(f"The artifact store holds no {name}.")
        self._reached(lambda: self._files.get_file(self._path(name), str(target)))

    def delete(self, name: str) -> None:
        """Remove an artifact."""
        with suppress(FileNotFoundError):
            self._files.rm_file(self._path(name))

    def list(self) -> Iterator[Artifact]:
        """Everything that is stored; temporary and foreign files are passed over."""
        found = self._reached(lambda: self._files.find(self._root, detail=True)) or {}
        for path, info in found.items():
            name = path[len(self._root) + 1 :]
            if _NAME.match(name):
                yield Artifact(name, int(info["size"]), _modified(info))

    def _path(self, name: str) -> str:
        return f"{self._root}/{checked_name(name)}"

    def _reached(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except FileNotFoundError as error:
            raise MissingArtifactError(f"The artifact store lacks {error}.") from error
        except OSError as error:
            raise StoreError(f"The artifact store at {self._root} failed: {error}.") from error


class MemoryStore:
    """The in-memory twin, for tests."""

    def __init__(self) -> None:
        self._content: dict[str, tuple[bytes, float]] = {}

    def has(self, name: str) -> bool:
        """Whether an artifact of that name is there."""
        return checked_name(name) in self._content

    def put(self, name: str, source: Path) -> None:
        """Store a local file's content."""
        self._content.setdefault(checked_name(name), (source.read_bytes(), time.time()))

    def get(self, name: str, target: Path) -> None:
        """Write an artifact to a local file."""
        if not self.has(name):
            raise MissingArtifactError(f"The artifact store holds no {name}.")
        target.write_bytes(self._content[name][0])

    def delete(self, name: str) -> None:
        """Remove an artifact."""
        self._content.pop(checked_name(name), None)

    def list(self) -> Iterator[Artifact]:
        """Everything that is stored."""
        for name, (data, modified) in sorted(self._content.items()):
            yield Artifact(name, len(data), modified)


def collect_garbage(store: ArtifactStore, keep: set[str], older_than: float, now: float) -> list[str]:
    """Remove what nobody refers to and is older than `older_than` seconds; returns the names removed."""
    gone = [item.name for item in store.list() if item.name not in keep and now - item.modified > older_than]
    for name in gone:
        store.delete(name)
    return gone


def _copy_atomically(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with source.open("rb") as reading, replacing(target) as writing:
        shutil.copyfileobj(reading, writing, 1 << 20)


def _modified(info: dict[str, Any]) -> float:
    value = info.get("mtime") or info.get("LastModified") or 0.0
    return float(value.timestamp()) if hasattr(value, "timestamp") else float(value)
