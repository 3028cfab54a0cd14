"""`TableCache`: tables on the disk of one host, fetched once, verified, and memory-mapped by every process.

    <fingerprint>.columns                    a table from the store
    <fingerprint>-<probes>-<seed>.probed     the table with probes, built here
    <fingerprint>-<split>.recoded            either of them as a search for findings reads it
    <fingerprint>-<split>.training           one of these, laid out for the kernels under one split
    <fingerprint>-<split>.bits               its training rows as bits, for screens
    <digest>.segment                         trees of a job
    <digest>.shuffles                        searches of a job on shuffled labels
    <digest>.cells, .drawn, …                what passes over the rows of a dataset have stored

What is built here from a small table is kept in memory only: to build it again takes less time than to map a file.

Files are written under a lock and renamed into place. When the cache exceeds its limit, the least recently used files
are removed; a process that has one mapped can use it until it closes it. Files of objects that were deleted from the
store are removed when they have not been opened for an hour.
"""

import fcntl
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import RLock
from time import monotonic, time
from typing import TypeVar

import numpy as np

from maabo_dist._util.files import file_digest
from maabo_dist.cluster.store import ArtifactStore, StoreError
from maabo_dist.contract.messages import TableSplit
from maabo_dist.data.columns import Columns, add_probes
from maabo_dist.data.recoding import recode
from maabo_dist.errors import FormatError
from maabo_dist.screens.blocks import THIRDS, Cuts
from maabo_dist.screens.pairs import BitTable
from maabo_dist.search.plan import SearchPlan
from maabo_dist.settings import MiningSettings
from maabo_dist.study import Study, check_classes, make_split, tree_split
from maabo_dist.trees.training import TrainingTable

Table = TypeVar("Table", Columns, TrainingTable, BitTable)

# Tables of each kind that a process keeps mapped.
OPEN_TABLES = 4
# Cells of a table that is small.
SMALL_CELLS = 50_000
# How often a process that adds files looks for those of deleted objects, and for how long these must be unused.
CHECK_SECONDS, UNUSED_SECONDS = 600.0, 3600.0
# To measure the cache takes longer than to add a small file. A process that adds files measures it after this share of
# the limit, or after this time.
MEASURED_SHARE, MEASURED_SECONDS = 1 / 64, 10.0
_DIGEST = re.compile(r"[0-9a-f]{64}")  # begins the name of every file
# The kinds of objects that passes over the rows of a dataset store.
PASS_KINDS = ("passes", "results", "drawn", "cells", "numbers", "samples")
# Where the object of a file is in the store, by the extension of the file; `columns` for all others.
_KINDS = {".segment": "trees"} | {f".{kind}": kind for kind in ("shuffles", *PASS_KINDS)}


class TableCache:
    """The tables of one host, by fingerprint.

    `limit` is the maximum size of all files, in bytes. What is built from tables of up to `small_cells` has no file.
    """

    def __init__(self, directory: Path, store: ArtifactStore, limit: int, small_cells: int = SMALL_CELLS) -> None:
        self.store = store
        self._directory, self._limit, self._small_cells = directory, limit, small_cells
        self._columns: OrderedDict[str, Columns] = OrderedDict()
        self._training: OrderedDict[str, TrainingTable] = OrderedDict()
        self._bits: OrderedDict[str, BitTable] = OrderedDict()
        self._lock = RLock()
        self._next_check = self._next_measurement = 0.0
        self._added = 0  # bytes since the last measurement

    def columns(self, fingerprint: str, split: TableSplit | None = None) -> Columns:
        """Return a table, with the probes of `split` if it has any, and recoded if it asks for that."""
        if split is not None and split.recoded:
            columns = self.columns(fingerprint, split.model_copy(update={"recoded": False}))
            if not columns.raw:  # not a copy: its cells stay as they are
                return recode(columns, np.empty(0, np.int64))

            return self._build(
                self._columns,
                f"{_layout_key(fingerprint, split)}.recoded",
                lambda: columns,
                lambda own: recode(own, make_split(own, split).train),
                Columns.load,
            )
        if split is None or not split.probes:
            return self._open(
                self._columns,
                f"{fingerprint}.columns",
                lambda target: self._fetch_columns(fingerprint, target),
                lambda path: _load_columns(path, fingerprint),
            )
        probes, seed = split.probes, split.probe_seed
        return self._build(
            self._columns,
            f"{fingerprint}-{probes}-{seed}.probed",
            lambda: self.columns(fingerprint),
            lambda columns: add_probes(columns, probes, seed),
            Columns.load,
        )

    def training(self, fingerprint: str, split: TableSplit) -> TrainingTable:
        """Return a table laid out for the kernels."""

        def build(columns: Columns) -> TrainingTable:
            weight, min_leaf = split.class_weight, split.min_samples_leaf
            parts = tree_split(make_split(columns, split), split)
            return TrainingTable.build(columns, parts, class_weight=weight, min_samples_leaf=min_leaf)

        name, columns = f"{_layout_key(fingerprint, split)}.training", partial(self.columns, fingerprint, split)
        return self._build(self._training, name, columns, build, TrainingTable.load)

    def bits(self, fingerprint: str, split: TableSplit, cuts: Cuts = THIRDS) -> BitTable:
        """Return a table laid out for screens at these cuts."""

        def build(columns: Columns) -> BitTable:
            return BitTable.build(columns, tree_split(make_split(columns, split), split), cuts)

        parts = "" if cuts == THIRDS else f"-{cuts[0][1]}"
        name, columns = f"{_layout_key(fingerprint, split)}{parts}.bits", partial(self.columns, fingerprint, split)
        return self._build(self._bits, name, columns, build, BitTable.load)

    def study(self, fingerprint: str, settings: MiningSettings) -> Study:
        """Return a table prepared for mining with these settings."""
        layout = TableSplit.of(settings)
        columns = self.columns(fingerprint, layout)
        check_classes(columns.classes, settings)
        plan = SearchPlan.settle(settings, columns.count, columns.column_names, **columns.plan_inputs)
        split, training = make_split(columns, layout), self.training(fingerprint, layout)
        return Study(columns, split, training, settings, plan, self.columns(fingerprint))

    def segment_file(self, digest: str) -> Path:
        """Return the file of a segment of trees, which is verified when it is fetched."""
        return self._file(f"{digest}.segment", lambda target: self._fetch_verified("trees", digest, target))

    def shuffles_file(self, digest: str) -> Path:
        """Return the file of searches on shuffled labels, which is verified when it is fetched."""
        return self._file(f"{digest}.shuffles", lambda target: self._fetch_verified("shuffles", digest, target))

    def pass_file(self, kind: str, digest: str) -> Path:
        """Return the file of an object that a pass has stored, which is verified when it is fetched."""
        return self._file(f"{digest}.{kind}", lambda target: self._fetch_verified(kind, digest, target))

    def put_pass_file(self, kind: str, path: Path) -> str:
        """Store a file of a pass, and return its digest."""
        digest = file_digest(path)
        self.store.put(f"{kind}/{digest}", path)
        return digest

    def put_pass_document(self, kind: str, data: bytes) -> str:
        """Store some bytes of a pass, and return their digest."""
        digest = sha256(data).hexdigest()
        self.store.put_bytes(f"{kind}/{digest}", data)
        return digest

    def _build(
        self,
        cache: OrderedDict[str, Table],
        name: str,
        columns: Callable[[], Columns],
        build: Callable[[Columns], Table],
        load: Callable[[Path], Table],
    ) -> Table:
        """Return what is built from columns: from memory or a file, if it was built before."""
        with self._lock:
            if name not in cache and not (self._directory / name).exists():
                source = columns()
                if source.rows * source.count <= self._small_cells:
                    self._remember(cache, name, build(source))
        return self._open(cache, name, lambda target: build(columns()).save(target), load)

    def _open(
        self,
        cache: OrderedDict[str, Table],
        name: str,
        make: Callable[[Path], None],
        load: Callable[[Path], Table],
    ) -> Table:
        """Return the table of a file, loaded once per process. A damaged file is made again, once."""
        with self._lock:
            if name not in cache:
                try:
                    table = load(self._file(name, make))
                except FormatError:
                    (self._directory / name).unlink(missing_ok=True)
                    table = load(self._file(name, make))
                self._remember(cache, name, table)
            cache.move_to_end(name)
            return cache[name]

    def _remember(self, cache: OrderedDict[str, Table], name: str, table: Table) -> None:
        cache[name] = table
        while len(cache) > OPEN_TABLES:
            cache.popitem(last=False)

    def _fetch_columns(self, fingerprint: str, target: Path) -> None:
        name = f"columns/{fingerprint}"
        self.store.get(name, target)
        try:
            _load_columns(target, fingerprint)
        except FormatError as error:  # removed, so that a client or scheduler can upload it again
            self.store.delete(name)
            raise StoreError(f"The table {fingerprint[:12]}… in the store is damaged: {error}") from error

    def _fetch_verified(self, kind: str, digest: str, target: Path) -> None:
        self.store.get(f"{kind}/{digest}", target)
        if file_digest(target) != digest:
            self.store.delete(f"{kind}/{digest}")
            raise StoreError(f"{kind}/{digest[:12]}… in the store is damaged.")

    def _file(self, name: str, make: Callable[[Path], None]) -> Path:
        """Return a file of the cache, and make it first if it is missing."""
        path = self._directory / name
        if not path.exists():
            self._directory.mkdir(parents=True, exist_ok=True)
            # One of 256 locks of each kind of file, so that their number is bounded. Kinds have locks of their own
            # because making one may need another.
            with _lock_file(self._directory / f".{name[:2]}{Path(name).suffix}.lock"):
                if not path.exists():
                    temporary = path.with_name(f".{name}.{os.getpid()}.tmp")
                    try:
                        make(temporary)
                        temporary.replace(path)
                    finally:
                        temporary.unlink(missing_ok=True)
                    self._evict(keep=path)
                    if time() >= self._next_check:
                        self._next_check = time() + CHECK_SECONDS
                        self.remove_deleted()
        os.utime(path)
        return path

    def remove_deleted(self) -> None:
        """Remove unused files whose object is no longer in the store."""
        unused: dict[str, list[Path]] = {}
        for path in self._directory.glob("[!.]*"):
            with suppress(OSError):  # removed by another process
                digest = _DIGEST.match(path.name)
                if digest and path.stat().st_mtime < time() - UNUSED_SECONDS:
                    kind = _KINDS.get(path.suffix, "columns")
                    unused.setdefault(f"{kind}/{digest[0]}", []).append(path)
        with suppress(StoreError):  # looked for again later
            for name, paths in unused.items():
                if not self.store.has(name):
                    for path in paths:
                        path.unlink(missing_ok=True)

    def _evict(self, keep: Path) -> None:
        """Remove the least recently used files if the cache exceeds its limit; `keep` has just been added."""
        self._added += keep.stat().st_size
        if self._added < MEASURED_SHARE * self._limit and monotonic() < self._next_measurement:
            return
        self._added, self._next_measurement = 0, monotonic() + MEASURED_SECONDS
        files: list[tuple[float, int, str]] = []
        with os.scandir(self._directory) as entries:
            for entry in entries:
                if not entry.name.startswith("."):
                    with suppress(FileNotFoundError):  # removed by another process
                        status = entry.stat()
                        files.append((status.st_mtime, status.st_size, entry.path))
        size = sum(each for _, each, _ in files)
        for _, bytes_freed, path in sorted(files):
            if size <= self._limit:
                return
            if path != str(keep):
                size -= bytes_freed
                Path(path).unlink(missing_ok=True)


def _layout_key(fingerprint: str, split: TableSplit) -> str:
    return f"{fingerprint}-{sha256(split.model_dump_json().encode()).hexdigest()[:16]}"


def _load_columns(path: Path, fingerprint: str) -> Columns:
    columns = Columns.load(path)
    if columns.fingerprint != fingerprint:
        raise FormatError(f"{path.name} contains table {columns.fingerprint[:12]}…, not {fingerprint[:12]}….")
    return columns


@contextmanager
def _lock_file(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
