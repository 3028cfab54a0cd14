"""Builds of other releases: copies of the source tree whose contract, and ledger, are of other versions.

this tree            reads and writes version 2
the next release     reads 2 and 3, writes 2; its ledger has a column more
the one after it     reads and writes 3
"""

import shutil
from pathlib import Path

from maabo_dist.contract.messages import OLDEST, VERSION
from scheduler import schema
from tests import servers

PACKAGES = ("maabo_dist", "scheduler", "workers")
WORKER = "tests/faults/held_app.py"
"""The application of workers that tests can hold up."""


def next_release(directory):
    """The root of a build to which this one can be upgraded process by process."""
    return _build(Path(directory) / "next", OLDEST, VERSION + 1)


def release_after_next(directory):
    """The root of one that has forgotten what this one writes."""
    return _build(Path(directory) / "after-next", VERSION + 1, VERSION + 1)


def _build(root, oldest, newest):
    for package in PACKAGES:  # with the kernels' machine code, which goes by the time of a file
        shutil.copytree(servers.ROOT / package, root / package)
    (root / WORKER).parent.mkdir(parents=True)
    shutil.copy2(servers.ROOT / WORKER, root / WORKER)
    _edit(
        root / "maabo_dist/contract/messages.py",
        (f"\nVERSION = {VERSION}\n", f"\nVERSION = {newest}\n"),
        (f"\nOLDEST = {OLDEST}\n", f"\nOLDEST = {oldest}\n"),
    )
    _add_a_column(root / "scheduler/schema.py", schema.VERSION)
    return root


def _add_a_column(path, known):
    _edit(
        path,
        (f"\nVERSION = {known}\n", f"\nVERSION = {known + 1}\n"),
        ('    Column("owner", String(80)),\n', '    Column("owner", String(80)),\n    Column("mood", String(80)),\n'),
        (f"{known - 1}: _to_{known}}}", f"{known - 1}: _to_{known}, {known}: _add_columns}}"),
    )


def _edit(path, *changes):
    source = path.read_text()
    for old, new in changes:
        assert source.count(old) == 1, f"{path.name} does not say {old!r}"
        source = source.replace(old, new)
    path.write_text(source)
