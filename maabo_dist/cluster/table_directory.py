"""The table directory of a cluster (MAABO_TABLES): the only place from which a server or a worker reads datasets.

A job names a dataset by its path in it. Nothing outside is read, also if a symbolic link leads there.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import fsspec

from maabo_dist.data.dataset_files import fingerprint_of, list_files
from maabo_dist.data.datasets import Dataset
from maabo_dist.errors import DatasetError, SettingsError


class NoSuchDirectoryError(DatasetError):
    """The table directory has no directory of this path."""


def open_directory(url: str, path: str, *, na_values: tuple[str, ...] = ()) -> Dataset:
    """Open a directory of files in the table directory, of which `url` is the fsspec URL."""
    files, root = _root(url)
    if "file" not in files.protocol:
        return Dataset.open(f"{url.rstrip('/')}/{path}", na_values=na_values)
    folder = root / path
    if not _is_inside(root, folder) or not folder.is_dir():
        raise NoSuchDirectoryError(
            f"There is no directory {path!r} in the table directory (MAABO_TABLES). Check the path, and that all "
            "machines of the cluster have the same table directory."
        )
    dataset = Dataset.open(folder, na_values=na_values)
    check_files(url, (file.path for file in dataset.files))
    return dataset


def identify_directory(url: str, path: str) -> str:
    """Return the fingerprint of the files of a directory, without opening them as tables."""
    files, root = _root(url)
    folder = str(root / path) if "file" in files.protocol else f"{url.rstrip('/')}/{path}"
    return fingerprint_of(list_files(folder))


def hide_root(url: str, text: str) -> str:
    """Return a text without the address of the table directory, for users who need not know it."""
    if not url:
        return text
    files, root = _root(url)
    for address in (url.rstrip("/"), str(root)) if "file" in files.protocol else (url.rstrip("/"),):
        text = text.replace(f"{address}/", "")
    return text


def check_files(url: str, paths: Iterable[str]) -> None:
    """Raise an error if a file is not in the table directory."""
    files, root = _root(url)
    for path in paths:
        if "file" in files.protocol:
            inside = "://" not in path and _is_inside(root, Path(path))
        else:
            inside = path.startswith(f"{url.rstrip('/')}/") and ".." not in path.split("/")
        if not inside:
            raise DatasetError(f"{path} is not in the table directory (MAABO_TABLES), and is not read.")


def path_in(url: str, source: str) -> str | None:
    """Return the path of a directory within the table directory; None if it is not in there."""
    files, root = _root(url)
    if "file" not in files.protocol:
        prefix = f"{url.rstrip('/')}/"
        return source[len(prefix) :].rstrip("/") if source.startswith(prefix) else None
    if "://" in source:
        return None
    folder = Path(source).resolve()
    return folder.relative_to(root).as_posix() if folder != root and folder.is_relative_to(root) else None


def _root(url: str) -> tuple[Any, Path]:
    if not url:
        raise SettingsError(
            "This process has no table directory, from which datasets of many files are read. Set MAABO_TABLES to the "
            "same directory or bucket for the server, the schedulers and the workers."
        )
    try:
        files, root = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise SettingsError(f"MAABO_TABLES: {error}.") from error
    return files, Path(root).resolve() if "file" in files.protocol else Path(root)


def _is_inside(root: Path, path: Path) -> bool:
    return path.resolve().is_relative_to(root)
