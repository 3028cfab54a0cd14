"""`python -m tests.faults.wrong_clock`: a scheduler on a machine whose clock is CLOCK_OFFSET seconds ahead."""

import os
import sys
import time

right_time, offset = time.time, float(os.environ["CLOCK_OFFSET"])
time.time = lambda: right_time() + offset

from scheduler import cli  # noqa: E402 - after the clock is set

if __name__ == "__main__":
    sys.exit(cli.main())
