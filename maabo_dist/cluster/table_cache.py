"""`TableCache`: tables on this host's disk, fetched once, verified, memory-mapped by every process of the host.

    <fingerprint>.columns                    a table as the store has it
    <fingerprint>-<probes>-<seed>.probed     the same with probes, made here
    <fingerprint>-<split>.training           either laid out for the kernels under one split
    <fingerprint>-<split>.bits               its training rows as bits, for screens
    <digest>.segment                         trees of a job

Files are made under a lock and renamed into place. The least recently used go when the cache is over its limit; who has
one mapped keeps it until it lets go.
"""

import fcntl
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import RLock
from typing import TypeVar

from maabo_dist.cluster.store import ArtifactStore, StoreError
from maabo_dist.contract.messages import TableSplit
from maabo_dist.data.columns import Columns
from maabo_dist.data.probes import with_probes
from maabo_dist.data.split import Split, split_rows
from maabo_dist.errors import FormatError
from maabo_dist.screens.bits import BitTable
from maabo_dist.search.plan import SearchPlan
from maabo_dist.settings import MiningSettings
from maabo_dist.study import Study
from maabo_dist.trees.training import TrainingTable
from maabo_dist.trees.wire import file_digest

Table = TypeVar("Table", Columns, TrainingTable, BitTable)

OPEN_TABLES = 4
"""Tables that a process keeps mapped."""


class TableCache:
    """Tables of one host, by fingerprint."""

    def __init__(self, directory: Path, store: ArtifactStore, limit: int) -> None:
        self._directory, self._store, self._limit = directory, store, limit
        self._columns: OrderedDict[str, Columns] = OrderedDict()
        self._training: OrderedDict[str, TrainingTable] = OrderedDict()
        self._bits: OrderedDict[str, BitTable] = OrderedDict()
        self._lock = RLock()

    @property
    def store(self) -> ArtifactStore:
        """Where the tables come from."""
        return self._store

    def columns(self, fingerprint: str, split: TableSplit | None = None) -> Columns:
        """The table, verified when this process first opens it; with the probes that `split` asks for, if it does."""
        if split is not None and split.probes:
            return self._probed(fingerprint, split)
        with self._lock:
            if fingerprint not in self._columns:
                path = self._file(f"{fingerprint}.columns", lambda target: self._fetch(fingerprint, target))
                _remember(self._columns, fingerprint, self._opened(path, fingerprint))
            self._columns.move_to_end(fingerprint)
            return self._columns[fingerprint]

    def columns_file(self, fingerprint: str) -> Path:
        """The file of a table."""
        self.columns(fingerprint)
        return self._file(f"{fingerprint}.columns", lambda target: self._fetch(fingerprint, target))

    def segment_file(self, digest: str) -> Path:
        """The file of a segment of trees, verified when it is fetched."""
        return self._file(f"{digest}.segment", lambda target: self._fetch_segment(digest, target))

    def training(self, fingerprint: str, split: TableSplit) -> TrainingTable:
        """The table laid out for the kernels."""
        key = _layout_key(fingerprint, split)
        with self._lock:
            if key not in self._training:
                build = partial(self._lay_out, fingerprint, split, _training_table)
                _remember(self._training, key, self._made(f"{key}.training", build, TrainingTable.load))
            self._training.move_to_end(key)
            return self._training[key]

    def study(self, fingerprint: str, settings: MiningSettings) -> Study:
        """The table made ready for mining with these settings."""
        layout = TableSplit.of(settings)
        columns = self.columns(fingerprint, layout)
        plan = SearchPlan.settle(settings, columns.count)
        return Study(columns, make_split(columns, layout), self.training(fingerprint, layout), settings, plan)

    def _probed(self, fingerprint: str, split: TableSplit) -> Columns:
        key = f"{fingerprint}-{split.probes}-{split.probe_seed}"

        def make(target: Path) -> None:
            with_probes(self.columns(fingerprint), split.probes, split.probe_seed).save(target)

        with self._lock:
            if key not in self._columns:
                _remember(self._columns, key, self._made(f"{key}.probed", make, Columns.load))
            self._columns.move_to_end(key)
            return self._columns[key]

    def bits(self, fingerprint: str, split: TableSplit) -> BitTable:
        """The table laid out for screens."""
        key = _layout_key(fingerprint, split)
        with self._lock:
            if key not in self._bits:
                build = partial(self._lay_out, fingerprint, split, _bit_table)
                _remember(self._bits, key, self._made(f"{key}.bits", build, BitTable.load))
            self._bits.move_to_end(key)
            return self._bits[key]

    def _lay_out(
        self,
        fingerprint: str,
        split: TableSplit,
        build: Callable[[Columns, TableSplit], TrainingTable | BitTable],
        target: Path,
    ) -> None:
        build(self.columns(fingerprint, split), split).save(target)

    def _made(self, name: str, make: Callable[[Path], None], load: Callable[[Path], Table]) -> Table:
        """A damaged file is made anew, once."""
        try:
            return load(self._file(name, make))
        except FormatError:
            (self._directory / name).unlink(missing_ok=True)
            return load(self._file(name, make))

    def _opened(self, path: Path, fingerprint: str) -> Columns:
        """A damaged file is fetched anew, once."""
        try:
            return _verified(path, fingerprint)
        except FormatError:
            path.unlink(missing_ok=True)
            return _verified(self._file(path.name, lambda target: self._fetch(fingerprint, target)), fingerprint)

    def _fetch(self, fingerprint: str, target: Path) -> None:
        name = f"columns/{fingerprint}"
        self._store.get(name, target)
        try:
            _verified(target, fingerprint)
        except FormatError as error:  # taken away, so that whoever has the table can put it there again
            self._store.delete(name)
            raise StoreError(f"The store's table {fingerprint[:12]}… was damaged: {error}") from error

    def _fetch_segment(self, digest: str, target: Path) -> None:
        self._store.get(f"trees/{digest}", target)
        if file_digest(target) != digest:
            self._store.delete(f"trees/{digest}")
            raise StoreError(f"The store's segment {digest[:12]}… of trees was damaged.")

    def _file(self, name: str, make: Callable[[Path], None]) -> Path:
        path = self._directory / name
        if not path.exists():
            self._directory.mkdir(parents=True, exist_ok=True)
            with _locked(self._directory / _lock_name(name)):
                if not path.exists():
                    temporary = path.with_name(f".{name}.{os.getpid()}.tmp")
                    try:
                        make(temporary)
                        temporary.replace(path)
                    finally:
                        temporary.unlink(missing_ok=True)
                    self._evict(keep=path)
        os.utime(path)
        return path

    def _evict(self, keep: Path) -> None:
        files = [path for path in self._directory.glob("[!.]*") if path.is_file()]
        files.sort(key=lambda path: path.stat().st_mtime)
        size = sum(path.stat().st_size for path in files)
        for path in files:
            if size <= self._limit:
                return
            if path != keep:
                size -= path.stat().st_size
                path.unlink(missing_ok=True)


def make_split(columns: Columns, split: TableSplit) -> Split:
    """The rows of each part."""
    return split_rows(
        columns.labels,
        test_size=split.test_size,
        seed=split.seed,
        holdout=split.holdout,
        stratify=split.stratify,
        classes=columns.classes,
    )


def _layout_key(fingerprint: str, split: TableSplit) -> str:
    return f"{fingerprint}-{sha256(split.model_dump_json().encode()).hexdigest()[:16]}"


def _bit_table(columns: Columns, split: TableSplit) -> BitTable:
    return BitTable.build(columns, make_split(columns, split))


def _training_table(columns: Columns, split: TableSplit) -> TrainingTable:
    return TrainingTable.build(
        columns,
        make_split(columns, split),
        class_weight=split.class_weight,
        min_samples_leaf=split.min_samples_leaf,
    )


def _verified(path: Path, fingerprint: str) -> Columns:
    columns = Columns.load(path)
    if columns.fingerprint != fingerprint:
        raise FormatError(f"{path.name} holds table {columns.fingerprint[:12]}…, not {fingerprint[:12]}….")
    return columns


def _remember(cache: OrderedDict[str, Table], key: str, value: Table) -> None:
    cache[key] = value
    while len(cache) > OPEN_TABLES:
        cache.popitem(last=False)


def _lock_name(name: str) -> str:
    """Files share 256 locks of each kind, so that locks do not pile up. Who makes one kind may need another."""
    return f".{name[:2]}{Path(name).suffix}.lock"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
