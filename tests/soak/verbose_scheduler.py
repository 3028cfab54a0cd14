"""`python -m scheduler` that also logs details, on a machine whose clock a test can set.

The file CLOCK_FILE holds the seconds that the clock is ahead.
"""

import logging
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

right_time, file = time.time, Path(os.environ["CLOCK_FILE"])


def wrong_time():
    with suppress(OSError, ValueError):  # being written
        return right_time() + float(file.read_text())
    return right_time()


time.time = wrong_time

from scheduler import cli  # noqa: E402 - after the clock is set

set_up_logging = cli.set_up_logging


def set_up_verbose_logging(style):
    set_up_logging(style)
    logging.getLogger("maabo").setLevel(logging.DEBUG)


if __name__ == "__main__":
    cli.set_up_logging = set_up_verbose_logging
    sys.exit(cli.main())
