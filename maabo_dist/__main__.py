"""`python -m maabo_dist`, the same as `maabo`."""

from maabo_dist.cli import main

main()
