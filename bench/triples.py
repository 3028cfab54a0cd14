"""All triples, compared with counting alone: the same ANDs and bit counts without any rating."""

from math import comb
from time import process_time

import numba

from bench import printing
from bench.tables import random_bits
from bench.timing import time_interleaved
from maabo_dist.screens import triple_kernel, triples
from maabo_dist.screens.screen import MAX_TRIPLES

# Features, training rows, classes.
SHAPES = ((300, 1050, 2), (300, 2100, 2), (300, 8400, 2), (300, 2100, 5), (600, 2100, 2), (1000, 2100, 2))
NOTES = (
    "Counting: the ANDs and bit counts of the kernel, and nothing else. CPU time, best of 3 interleaved rounds.",
    "The labels are random: no triple is strong, and the strongest are the most that chance gives.",
)


def run(options) -> None:
    rows = []
    for features, count, classes in SHAPES[: 2 if options.quick else None]:
        table = triples.TripleTable.build(random_bits(features, count, classes))
        scratch = triples.Scratch.allocate(table, triples.TILE)
        taken = time_interleaved(
            {
                "screen": lambda table=table: triples.screen_triple_block(table, 0, len(table.words) - 1, MAX_TRIPLES),
                "count": lambda table=table, scratch=scratch: _count_all(table, scratch),
            },
            3,
            clock=process_time,
        )
        ours, bound = (taken[name].best / comb(features, 3) for name in ("screen", "count"))
        rows.append(
            (
                f"{features:,} × {count:,}",
                f"{classes}",
                printing.format_time(ours),
                printing.format_time(bound),
                f"{ours / bound:.2f}×",
                f"{taken['screen'].best:.2f} s",
                *printing.format_verdict(ours / bound, printing.Goal(maximum=1.5)),
            )
        )
    columns = ["D × rows", "classes", "ours", "counting", "ratio", "all triples", "goal", ""]
    printing.print_table("7. All triples, a triple", columns, rows, NOTES)


def _count_all(table, scratch) -> None:
    for start in range(0, len(table.words), triples.TILE):
        _count_tile(table, scratch, start, min(len(table.words), start + triples.TILE))


@numba.njit(nogil=True, error_model="numpy")
def _count_tile(table, scratch, start, stop):
    words, counts, size = table.words.shape[1], scratch.counts.ctypes.data, triple_kernel.LANES
    for f in range(stop - 1):
        first = max(start, f + 1)
        for g in range(first, stop):
            for word in range(words):
                for a in range(2):
                    for b in range(2):
                        scratch.left[g - start, word, 2 * a + b] = table.words[f, word, a] & table.words[g, word, b]
        for block in range((first + 1) // size, len(table.lanes)):
            third = table.lanes.ctypes.data + 8 * size * block * words
            for g in range(first, min(stop, size * (block + 1) - 1)):
                left = scratch.left.ctypes.data + 16 * (g - start) * words
                for c in range(len(table.totals)):
                    triple_kernel.count_triples(left, third, 2 * table.starts[c], 2 * table.starts[c + 1], counts)
