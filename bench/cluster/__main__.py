"""`python -m bench.cluster`: all tables, or one of them."""

import argparse
from time import perf_counter

from bench import show
from bench.cluster import books, host, http, scaling, sizes, throughput

PARTS = {"throughput": throughput, "scaling": scaling, "books": books, "host": host, "http": http, "sizes": sizes}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append", help="this table alone (repeat for more)")
    parser.add_argument("--quick", action="store_true", help="smaller sizes: some two minutes")
    options = parser.parse_args()
    start = perf_counter()
    for name in options.only or PARTS:
        PARTS[name].run(options)
    show.console.print(f"{perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()
