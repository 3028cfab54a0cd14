"""All pairs, compared with the same screen one pair after another, which rates every pair exactly."""

from math import comb

from bench import printing
from bench.tables import random_bits
from bench.timing import time_interleaved
from maabo_dist.screens import pairs
from maabo_dist.screens.screen import MAX_PAIRS
from tests.reference import scalar_pairs

# Features, training rows, classes.
SHAPES = ((2000, 1000, 2), (2000, 1400, 2), (2000, 1000, 5), (2000, 8000, 2), (20_000, 1400, 2))
# The largest table takes the peer half a minute, and has one round.
LARGE = 10_000
NOTES = (
    "One by one: 64 rows at a time, and every pair rated exactly (tests/reference/scalar_pairs.py). One core.",
    "Best of 3 interleaved rounds after a warm-up; one round of the largest table. Both return the same pairs.",
)


def run(options) -> None:
    rows = []
    for features, count, classes in SHAPES[: 3 if options.quick else None]:
        table, large = random_bits(features, count, classes), features > LARGE
        taken = time_interleaved(
            {
                "ours": lambda table=table: pairs.screen_pairs(table, MAX_PAIRS),
                "one by one": lambda table=table: scalar_pairs.screen_pairs(table, MAX_PAIRS),
            },
            1 if large else 3,
            warm_up=not large,
        )
        ours, peer = (timing.best / comb(features, 2) for timing in taken.values())
        is_stated = (count, classes) == (1000, 2)
        verdicts = [
            *printing.format_verdict(peer / ours, printing.Goal(minimum=2)),
            *(printing.format_verdict(ours * 1e9, printing.Goal(maximum=60)) if is_stated else ("", "")),
        ]
        name, times = f"{features:,} × {count:,}", [printing.format_time(each) for each in (ours, peer)]
        rows.append((name, f"{classes}", *times, f"{peer / ours:.1f}×", *verdicts))
    columns = ["D × rows", "classes", "ours", "one by one", "ratio", "goal", "", "goal, ns", ""]
    printing.print_table("8. All pairs, a pair", columns, rows, NOTES)
