"""`python -m bench.cluster`: run all benchmarks of the cluster, or some of them."""

import argparse
from pathlib import Path
from time import perf_counter

from bench import printing
from bench.cluster import host_memory, http, ledger, recovery, scaling, sizes, small_jobs, throughput, triples
from maabo_dist.warm import warm

BENCHMARKS = {
    "throughput": throughput,
    "scaling": scaling,
    "recovery": recovery,
    "ledger": ledger,
    "host": host_memory,
    "http": http,
    "small-jobs": small_jobs,
    "sizes": sizes,
    "triples": triples,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description=__doc__)
    parser.add_argument("--only", choices=BENCHMARKS, action="append", help="only this benchmark (repeat for more)")
    parser.add_argument("--quick", action="store_true", help="smaller sizes: about two minutes")
    parser.add_argument("--before", type=Path, metavar="DIR", help="also measure this checkout (http, small-jobs)")
    options = parser.parse_args()
    warm()  # processes that are started must not have to compile kernels
    start = perf_counter()
    for name in options.only or BENCHMARKS:
        BENCHMARKS[name].run(options)
    printing.console.print(f"{perf_counter() - start:.0f} s in total")


if __name__ == "__main__":
    main()
