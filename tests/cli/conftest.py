import sys

import pytest

from maabo_dist.cli import main


@pytest.fixture
def maabo(monkeypatch, capsysbinary):
    """Runs the console entry in this process, as the installed script does; returns exit code, stdout and stderr."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["maabo", *map(str, arguments)])
        with pytest.raises(SystemExit) as ending:
            main()
        captured = capsysbinary.readouterr()
        return ending.value.code, captured.out.decode(), captured.err.decode()

    return call
