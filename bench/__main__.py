"""`python -m bench`: run all benchmarks, or some of them."""

import argparse
from time import perf_counter

from bench import acquisition, depth, memory, pairs, paper, printing, proposing, rules, startup, tables, triples, wide

BENCHMARKS = {
    "depth": depth,
    "acquisition": acquisition,
    "proposing": proposing,
    "rules": rules,
    "startup": startup,
    "memory": memory,
    "paper": paper,
    "triples": triples,
    "pairs": pairs,
    "wide": wide,
}
# Takes minutes and a gigabyte of disk; run only if it is named.
ON_REQUEST = {"wide"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", choices=BENCHMARKS, action="append", help="only this benchmark (repeat for more)")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer rounds: under a minute")
    parser.add_argument("--titanic", metavar="FILE", help="the Titanic table as CSV (default: $MAABO_TITANIC)")
    options = parser.parse_args()
    options.titanic = tables.titanic_path(options.titanic)
    start = perf_counter()
    for name in options.only or [each for each in BENCHMARKS if each not in ON_REQUEST]:
        BENCHMARKS[name].run(options)
    printing.console.print(f"{perf_counter() - start:.0f} s in total")


if __name__ == "__main__":
    main()
