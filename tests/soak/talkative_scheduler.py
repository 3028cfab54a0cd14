"""`python -m scheduler` that also logs details, such as answers that it dropped."""

import logging
import sys

from scheduler import __main__ as entry

set_up = entry.set_up_logging


def set_up_in_detail(style):
    set_up(style)
    logging.getLogger("maabo").setLevel(logging.DEBUG)


if __name__ == "__main__":
    entry.set_up_logging = set_up_in_detail
    sys.exit(entry.main())
