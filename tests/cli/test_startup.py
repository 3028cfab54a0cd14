import subprocess
import sys

import pytest

HEAVY = (
    *("numpy", "pandas", "numba", "sklearn", "scipy", "pyarrow", "rich"),
    *("redis", "celery", "kombu", "sqlalchemy", "fsspec"),
)
PROGRAM = "import sys, {module}; print(*(name for name in {heavy} if name in sys.modules))"


@pytest.mark.parametrize("module", ["maabo_dist", "maabo_dist.cli", "maabo_dist.report"])
def test_importing_the_package_or_its_command_line_loads_nothing_heavy(module):
    program = PROGRAM.format(module=module, heavy=HEAVY)

    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert loaded.split() == []


def test_the_queue_client_loads_no_tables_and_no_kernels():
    program = PROGRAM.format(module="maabo_dist.cluster.queue_client", heavy=("pandas", "numba", "sklearn", "celery"))

    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert loaded.split() == []


def test_the_commands_of_a_scheduler_load_no_kernels():
    """Container managers run `python -m scheduler health` every few seconds."""
    program = PROGRAM.format(module="scheduler.cli", heavy=("pandas", "numba", "celery", "fastapi"))

    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert loaded.split() == []


def test_the_processes_of_a_cluster_start_without_packages_for_reading_and_testing_tables():
    modules = "scheduler.__main__, scheduler.core.loop, scheduler.api.server, workers.app"
    program = PROGRAM.format(module=modules, heavy=("pandas", "pyarrow", "sklearn", "scipy.special", "rich"))

    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert loaded.split() == []


def test_mining_a_file_loads_neither_scikit_learn_nor_scipy_stats(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("a,b,class\n" + "".join(f"{i % 7},{i % 5},{i % 2}\n" for i in range(60)))
    options = ["mine", str(table), "--target", "class", "--strategy", "single", "--stratify"]
    program = (
        f"import sys; from maabo_dist.cli import maabo; maabo({options!r}, standalone_mode=False); "
        "print('loaded:', *(name for name in ('sklearn', 'scipy.stats') if name in sys.modules), file=sys.stderr)"
    )

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert run.stderr.splitlines()[-1].split() == ["loaded:"]  # on a slow machine, lines about progress come before
