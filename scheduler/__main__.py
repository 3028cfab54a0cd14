"""`python -m scheduler`."""

import sys

from scheduler.cli import main

if __name__ == "__main__":
    sys.exit(main())
