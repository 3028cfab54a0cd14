"""The console entry, called as in the tests of the other commands."""

from tests.cli.conftest import maabo

__all__ = ["maabo"]
