"""What made a result: the versions of Python, this program and the packages that can change a result."""

import platform
from importlib.metadata import version

from maabo_dist._version import __version__

_PACKAGES = ("numba", "numpy", "pandas", "scikit-learn")


def versions() -> dict[str, str]:
    """By name, Python and this program first."""
    packages = {name: version(name) for name in _PACKAGES}
    return {"python": platform.python_version(), "maabo-dist": __version__, **packages}
