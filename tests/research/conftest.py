"""The console entry, as the tests of the other commands call it."""

from tests.cli.conftest import maabo

__all__ = ["maabo"]
