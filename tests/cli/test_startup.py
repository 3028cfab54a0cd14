import subprocess
import sys

import pytest

HEAVY = ("numpy", "pandas", "numba", "sklearn", "scipy", "pyarrow", "rich")
PROGRAM = "import sys, {module}; print(*(name for name in {heavy} if name in sys.modules))"


@pytest.mark.parametrize("module", ["maabo_dist", "maabo_dist.cli", "maabo_dist.report"])
def test_importing_the_package_or_its_command_line_loads_nothing_heavy(module):
    program = PROGRAM.format(module=module, heavy=HEAVY)

    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert loaded.split() == []
