"""Draw plots from the plain values of `bench.quality.figure`."""

from pathlib import Path


def draw(figure: dict, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    panels = figure["panels"]
    canvas, axes = plt.subplots(1, len(panels), figsize=(4.6 * len(panels), 3.6), squeeze=False)
    for axis, panel in zip(axes[0], panels, strict=True):
        (_bars if panel["kind"] == "bars" else _lines)(axis, panel)
        axis.set_title(panel["title"], fontsize=10)
        axis.set_ylabel(panel["ylabel"])
        axis.spines[["top", "right"]].set_visible(False)
    canvas.tight_layout()
    canvas.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(canvas)


def _bars(axis: object, panel: dict) -> None:
    """One bar for each method; goals as dashed lines."""
    series = panel["series"]
    for index, bar in enumerate(series):
        axis.bar(index, bar["y"][0], yerr=bar["error"][0], color="#4477aa" if bar["ours"] else "#bbbbbb", capsize=3)
    axis.set_xticks(range(len(series)), [bar["name"] for bar in series], rotation=40, ha="right", fontsize=8)
    if panel["goal"] is not None:
        axis.axhline(panel["goal"], linestyle="--", color="#cc6677", linewidth=1)


def _lines(axis: object, panel: dict) -> None:
    """One line for each series, on logarithmic scales."""
    for line in panel["series"]:
        axis.errorbar(line["x"], line["y"], yerr=line["error"], marker="o", markersize=3, capsize=2, label=line["name"])
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel(panel["xlabel"])
    if len(panel["series"]) > 1:
        axis.legend(fontsize=8, frameon=False)
