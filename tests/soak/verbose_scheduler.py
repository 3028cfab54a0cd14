"""`python -m scheduler` that also logs details, such as answers that it dropped."""

import logging
import sys

from scheduler import cli

set_up_logging = cli.set_up_logging


def set_up_verbose_logging(style):
    set_up_logging(style)
    logging.getLogger("maabo").setLevel(logging.DEBUG)


if __name__ == "__main__":
    cli.set_up_logging = set_up_verbose_logging
    sys.exit(cli.main())
