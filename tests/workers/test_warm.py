"""`warm` compiles all kernels that the first jobs need, including those of workers (mapped tables, packed trees)."""

import subprocess
import sys

import pytest

PROGRAM = """
import gc, sys
from pathlib import Path

import numpy as np
from numba.core.dispatcher import Dispatcher

from maabo_dist.data.columns import Columns
from maabo_dist.mining.local import mine
from maabo_dist.settings import MiningSettings
from maabo_dist.trees.wire import pack_forest, unpack_forest
from maabo_dist.warm import warm, warm_for_large_tables
from tests.factories import make_columns

WAYS = {}, {"subset_size": "1-3"}, {"candidates": 8, "top_features": 4}, {"preset": "auto"}


def compiled():
    found = [each for each in gc.get_objects() if isinstance(each, Dispatcher)]
    return {(each.py_func.__qualname__, str(signature)) for each in found for signature in each.signatures}


warm()
before = compiled()
for classes in (2, 3):
    made = make_columns(np.random.default_rng(5), 120, 60, classes)
    made.save(Path(sys.argv[1]))
    for columns in (made, Columns.load(Path(sys.argv[1]))):
        for way in WAYS:
            settings = MiningSettings(trees=30, min_samples=2, gini=1.0, **way)
            forest = mine(columns, settings, keep_trees=True).forest
            unpack_forest(pack_forest(forest), forest.subsets) if not way else None
print(*sorted(name for name, _ in compiled() - before))
"""


LARGE = (
    PROGRAM[: PROGRAM.index("warm()\n")]
    + """
warm()
warm_for_large_tables()
before = compiled()
for rows in (45_000, 80_000):
    mine(make_columns(np.random.default_rng(5), rows, 8, 2), MiningSettings(trees=30, certify=1))
print(*sorted(name for name, _ in compiled() - before))
"""
)


@pytest.mark.soak
@pytest.mark.parametrize("program", [PROGRAM, LARGE], ids=["small tables", "large tables"])
def test_a_process_that_is_warm_compiles_nothing_for_its_first_jobs(tmp_path, program):
    command = [sys.executable, "-c", program, str(tmp_path / "table")]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout.split()) == (0, []), done.stderr
