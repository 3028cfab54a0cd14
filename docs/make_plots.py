"""Draw the plots of docs/plots.md: `python docs/make_plots.py [FOLDER]`, by default into docs/plots."""

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt

from maabo_dist import RuleMiner
from maabo_dist.data.bundled import load_bundled
from maabo_dist.plots import plot_coverage, plot_precision_coverage, plot_rule, plot_tree


def main(folder: Path) -> None:
    """Mine a bundled table and plot its rules."""
    frame, table = load_bundled("breast_cancer")
    X, y = frame.drop(columns=table.target), frame[table.target]
    settings = {"holdout": 0.2, "similarity": 0.4, "trees": 400, "max_depth": 3}
    miner = RuleMiner(**settings).fit(X, y)
    plots = {
        "precision": lambda: plot_precision_coverage(miner),
        "coverage": lambda: plot_coverage(miner),
        "rule": lambda: plot_rule(miner, "R1"),
        "tree": lambda: plot_tree(miner, "R1"),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in plots.items():
        draw()
        # Without matplotlib's version in the metadata, the file changes only when the plot does.
        plt.savefig(folder / f"{name}.png", dpi=90, metadata={"Software": None})
        plt.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "plots")
