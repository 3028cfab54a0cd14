"""`python -m bench.growth [FILE]`: how the screens grow with features, rows and classes, as a plot.

Pairs and triples on one core, in seconds of the processor: others may use it too. By default the plot goes to
docs/images/screens-growth.png.
"""

import sys
from math import comb
from pathlib import Path
from time import process_time

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt

from bench import printing
from bench.tables import random_bits
from maabo_dist.screens.pairs import BitTable, screen_pairs
from maabo_dist.screens.screen import MAX_PAIRS, MAX_TRIPLES
from maabo_dist.screens.triples import screen_triples

# Features, training rows, classes: one of them changes in each panel.
FEATURES, ROWS, CLASSES = 400, 2100, 2
PANELS = {
    "features": [(features, ROWS, CLASSES) for features in (100, 200, 400, 800)],
    "training rows": [(FEATURES, rows, CLASSES) for rows in (500, 1000, 2000, 4000, 8000, 16_000)],
    "classes": [(FEATURES, ROWS, classes) for classes in (2, 3, 4, 6, 8)],
}
SCREENS = {"triple": (screen_triples, MAX_TRIPLES, 3), "pair": (screen_pairs, MAX_PAIRS, 2)}
# Pairs are so few that they need wider tables to be measured.
WIDER = {"triple": 1, "pair": 5}
ROUNDS, Y_TICKS = 2, (10, 20, 50, 100, 200)
DEFAULT = Path(__file__).parent.parent / "docs/images/screens-growth.png"


def main(path: Path) -> None:
    figure, axes = plt.subplots(1, len(PANELS), figsize=(10, 3.2), sharey=True, layout="constrained")
    rows = []
    for axis, (changed, shapes) in zip(axes, PANELS.items(), strict=True):
        x = [shape[list(PANELS).index(changed)] for shape in shapes]
        for name in SCREENS:
            y = [_nanoseconds(random_bits(WIDER[name] * features, *other), name) for features, *other in shapes]
            axis.plot(x, y, "o-", label=f"a {name}")
            for shape, value in zip(shapes, y, strict=True):
                rows.append(
                    (name, *(f"{number:,}" for number in (WIDER[name] * shape[0], *shape[1:])), f"{value:.1f} ns")
                )
        axis.set(xscale="log", yscale="log", xlabel=changed, xticks=x, xticklabels=[f"{value:,}" for value in x])
        axis.set(yticks=Y_TICKS, yticklabels=[f"{value:,}" for value in Y_TICKS])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("ns of one core")
    axes[0].legend()
    stated = f"{FEATURES} features, {ROWS:,} training rows and {CLASSES} classes unless stated; random labels"
    figure.suptitle(f"{stated}; five times the features for pairs", fontsize=9)
    # Without matplotlib's version in the metadata, the file changes only when the plot does.
    figure.savefig(path, dpi=90, metadata={"Software": None})
    printing.print_table("Growth of the screens", ["", "features", "rows", "classes", "each"], rows)


def _nanoseconds(table: BitTable, name: str) -> float:
    screen, most, size = SCREENS[name]
    screen(table, most)  # compiles
    taken = []
    for _ in range(ROUNDS):
        start = process_time()
        screen(table, most)
        taken.append(process_time() - start)
    return min(taken) / comb(table.features, size) * 1e9


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT)
