"""`ArtifactStore`: tables, trees and figure data by name, in a directory or in a bucket.

A name identifies the content (a fingerprint or a digest), so a file never changes. Writes are atomic; reads copy to a
local file, which the caller verifies. `maabo_dist.cluster.redis_store` has another implementation, in Redis.
"""

import gzip
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import fsspec

from maabo_dist._util.files import atomic_write, make_directory
from maabo_dist.errors import MaaboError, SettingsError

if TYPE_CHECKING:
    from maabo_dist.report.figures import FigureData


# The form of a name, for `fullmatch`.
ARTIFACT_NAME = re.compile(r"[a-z]+/[0-9a-f]{32,64}")

# A bucket cannot touch a file, so `put` uploads an older one again to renew its age.
RENEWAL_SECONDS = 3600.0

# A temporary file that was not written for this long belongs to a process that was killed. Each process looks for such
# files at this interval.
ABANDONED_SECONDS, ABANDONED_CHECK_SECONDS = 86400.0, 3600.0


class StoreError(MaaboError):
    """The store cannot be reached or failed; another attempt may succeed."""

    kind = "unavailable"


class MissingArtifactError(StoreError):
    """The store holds no artifact of that name."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """One stored file."""

    name: str
    size: int
    # Seconds since the epoch.
    modified: float


class ArtifactStore(Protocol):
    """A store of artifacts."""

    def has(self, name: str) -> bool:
        """Return True if the store holds this artifact."""

    def put(self, name: str, source: Path) -> None:
        """Store a local file, atomically.

        If the artifact exists, its content is kept and its age renewed, so that garbage collection does not remove it.
        So call this even if `has` returns True. (A bucket renews files older than `RENEWAL_SECONDS`.)
        """

    def put_bytes(self, name: str, data: bytes) -> None:
        """Store bytes like a file of `put`."""

    def get(self, name: str, target: Path) -> None:
        """Copy an artifact to a local file, atomically; MissingArtifactError if there is none."""

    def delete(self, name: str) -> None:
        """Remove an artifact; no error if there is none."""

    def list(self) -> Iterator[Artifact]:
        """Yield all artifacts."""


def check_name(name: str) -> str:
    """Return the name if it has the form `columns/<hex digest>`, so that it is safe as a path."""
    if not ARTIFACT_NAME.fullmatch(name):
        raise SettingsError(f"{name!r} is not the name of an artifact, which has the form columns/<hex digest>.")
    return name


class FileStore:
    """A directory, or a bucket that fsspec reaches (`s3://bucket/prefix` with the extra `s3`)."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._next_checks: dict[Path, float] = {}  # for abandoned files, by directory
        self._open()

    def has(self, name: str) -> bool:
        """Return True if the store holds this artifact."""
        return self._info(name) is not None

    def put(self, name: str, source: Path) -> None:
        """Store a local file: copied under a temporary name, flushed, renamed."""
        self._put(name, lambda: source.open("rb"), lambda path: self._files.put_file(str(source), path))

    def put_bytes(self, name: str, data: bytes) -> None:
        """Store bytes in the same way."""
        self._put(name, lambda: BytesIO(data), lambda path: self._files.pipe_file(path, data))

    def _put(self, name: str, open_source: Callable[[], BinaryIO], upload: Callable[[str], object]) -> None:
        path = self._path(name)
        info = None if self._local else self._info(name)
        with self._translate_errors():
            if self._local:
                self._put_in_directory(open_source, Path(path))
            elif info is None or time.time() - _modified(info) > RENEWAL_SECONDS:
                upload(path)  # an object store shows it when it is complete

    def _put_in_directory(self, open_source: Callable[[], BinaryIO], target: Path) -> None:
        try:
            os.utime(target)
        except (FileNotFoundError, PermissionError):  # missing, or owned by another user and replaced
            make_directory(target.parent)
            if time.monotonic() >= self._next_checks.get(target.parent, 0.0):
                self._next_checks[target.parent] = time.monotonic() + ABANDONED_CHECK_SECONDS
                _remove_abandoned(target.parent)
            with open_source() as reading, atomic_write(target) as writing:
                shutil.copyfileobj(reading, writing, 1 << 20)

    def get(self, name: str, target: Path) -> None:
        """Copy an artifact to a local file."""
        if not self.has(name):
            raise MissingArtifactError(f"{name} is not in the artifact store.")
        with self._translate_errors(), atomic_write(target) as file:
            self._files.get_file(self._path(name), file.name)

    def delete(self, name: str) -> None:
        """Remove an artifact."""
        path = self._path(name)
        with self._translate_errors(), suppress(FileNotFoundError):
            self._files.rm_file(path)

    def list(self) -> Iterator[Artifact]:
        """Yield all artifacts; temporary and other files are skipped."""
        with self._translate_errors():
            files = self._files.find(self._root, detail=True)
        for path, info in files.items():
            name = path[len(self._root) + 1 :]
            if ARTIFACT_NAME.fullmatch(name):
                yield Artifact(name, int(info["size"]), _modified(info))

    def _open(self) -> None:
        try:
            # No cache of listings: other processes add and remove files.
            filesystem, root = fsspec.core.url_to_fs(self._url, use_listings_cache=False)
        except (ImportError, ValueError) as error:
            lacks_extra = isinstance(error, ImportError)
            remedy = "; s3:// needs the extra s3: pip install 'maabo-dist[s3]'" if lacks_extra else ""
            raise SettingsError(f"The artifact store {self._url!r} cannot be used: {error}{remedy}.") from error
        self._opened: Any = filesystem
        self._process = os.getpid()
        self._root = root.rstrip("/")
        self._local = "file" in filesystem.protocol
        # The errors of a bucket's client cannot be imported without the extra `s3`.
        self._errors: type[Exception] = OSError if self._local else Exception

    @property
    def _files(self) -> Any:
        if self._process != os.getpid():  # connections to a bucket do not survive a fork
            self._open()
        return self._opened

    def _path(self, name: str) -> str:
        return f"{self._root}/{check_name(name)}"

    def _info(self, name: str) -> Any:
        """Return the file system's information on an artifact; None if it does not exist."""
        path = self._path(name)
        with self._translate_errors(), suppress(FileNotFoundError):
            return self._files.info(path)
        return None

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            raise StoreError(f"The artifact store at {self._root} failed: {error}.") from error


def collect_garbage(store: ArtifactStore, keep: set[str], older_than: float, now: float) -> list[str]:
    """Delete artifacts that are not in `keep` and older than `older_than` seconds, and return their names."""
    garbage = [item.name for item in store.list() if item.name not in keep and now - item.modified > older_than]
    for name in garbage:
        store.delete(name)
    return garbage


def _remove_abandoned(directory: Path) -> None:
    """Remove temporary files of processes that were killed."""
    for path in directory.glob(".*.tmp"):
        with suppress(OSError):  # owned by another user, or already removed
            if time.time() - path.stat().st_mtime > ABANDONED_SECONDS:
                path.unlink()


def _modified(info: dict[str, Any]) -> float:
    modified = info.get("mtime") or info.get("LastModified") or info.get("created")
    value = modified or time.time()  # without a known age, an artifact is never garbage
    return float(value.timestamp()) if hasattr(value, "timestamp") else float(value)


# The maximum size of decompressed figure data, which is normally far smaller.
MAX_FIGURE_BYTES = 64 << 20


def figures_name(job: str) -> str:
    """Return the name of a job's figure data."""
    return f"figures/{job}"


def store_figures(store: ArtifactStore, job: str, figures: "FigureData") -> None:
    """Store the figure data of a job's final rules."""
    from maabo_dist.report.figures import dump_figures  # noqa: PLC0415 - pandas, which schedulers do not need

    store.put_bytes(figures_name(job), gzip.compress(dump_figures(figures).encode(), mtime=0))


def load_figures(store: ArtifactStore, job: str) -> "FigureData | None":
    """Return the figure data of a job; None if it has none."""
    with TemporaryDirectory(prefix="maabo-") as folder:
        path = Path(folder) / "figures"
        try:
            store.get(figures_name(job), path)
        except MissingArtifactError:
            return None
        with gzip.open(path) as file:
            figures: FigureData = json.loads(file.read(MAX_FIGURE_BYTES))
    return figures
