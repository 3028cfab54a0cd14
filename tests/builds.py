"""Builds of later releases: copies of the source tree with other versions of the contract and of the ledger.

release       reads    writes
this          2        2
next          2, 3     2         adds a version; its ledger, and that of all later releases, has one more column
after next    2, 3     3
third         3        3
"""

import shutil
from pathlib import Path

from maabo_dist.contract.messages import OLDEST_VERSION, VERSION, WRITTEN_VERSION
from scheduler.ledger import schema
from tests import servers

PACKAGES = ("maabo_dist", "scheduler", "workers")
WORKER = "tests/faults/held_app.py"
"""The application of workers that tests can pause."""


VERSIONS = {
    "next": {"OLDEST_VERSION": OLDEST_VERSION, "WRITTEN_VERSION": WRITTEN_VERSION, "VERSION": VERSION + 1},
    "after next": {"OLDEST_VERSION": OLDEST_VERSION, "WRITTEN_VERSION": VERSION + 1, "VERSION": VERSION + 1},
    "third": {"OLDEST_VERSION": VERSION + 1, "WRITTEN_VERSION": VERSION + 1, "VERSION": VERSION + 1},
}


def later_release(directory, name):
    """Return the root of a build."""
    root = Path(directory) / name.replace(" ", "-")
    for package in PACKAGES:  # with modification times, on which numba's cache depends
        shutil.copytree(servers.ROOT / package, root / package)
    (root / WORKER).parent.mkdir(parents=True)
    shutil.copy2(servers.ROOT / WORKER, root / WORKER)
    versions = {"OLDEST_VERSION": OLDEST_VERSION, "WRITTEN_VERSION": WRITTEN_VERSION, "VERSION": VERSION}
    changes = [(f"\n{key} = {versions[key]}\n", f"\n{key} = {value}\n") for key, value in VERSIONS[name].items()]
    _edit(root / "maabo_dist/contract/messages.py", *changes)
    _add_a_column(root / "scheduler/ledger/schema.py", schema.VERSION)
    return root


def _add_a_column(path, versions):
    migration = """MIGRATIONS: dict[int, Callable[[Connection], None]] = {
    %d: lambda connection: connection.exec_driver_sql("ALTER TABLE maabo_jobs ADD COLUMN mood VARCHAR(80)"),
"""
    _edit(
        path,
        (f"\nVERSION = {versions}\n", f"\nVERSION = {versions + 1}\n"),
        (
            '    Column("owner", String(MAX_OWNER)),\n',
            '    Column("owner", String(MAX_OWNER)),\n    Column("mood", String(80)),\n',
        ),
        ("MIGRATIONS: dict[int, Callable[[Connection], None]] = {\n", migration % versions),
    )


def _edit(path, *changes):
    source = path.read_text()
    for old, new in changes:
        assert source.count(old) == 1, f"{path.name} does not contain {old!r}"
        source = source.replace(old, new)
    path.write_text(source)
