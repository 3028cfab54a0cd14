"""The plots of the report as functions that return matplotlib axes, for notebooks.

    from maabo_dist.plots import plot_precision_coverage, plot_rule
    plot_precision_coverage(miner)
    plot_rule(miner, "R1")

The first argument is a fitted `RuleMiner`, or the document and the figure data that `read_run` of `report.run_folder`
returns, or the one of the two that the plot needs. With `ax`, a function draws into these axes and touches nothing
else; without it, pyplot makes a figure. matplotlib is the extra `plots`.
"""

from maabo_dist.errors import SettingsError

try:
    from maabo_dist.plots.rule_details import plot_rule, plot_tree
    from maabo_dist.plots.rules import plot_coverage, plot_funnel, plot_precision_coverage, plot_similarity
    from maabo_dist.plots.search import plot_feature_use, plot_pair_use, plot_search
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "matplotlib":
        raise
    remedy = 'pip install "maabo-dist[plots]"'
    raise SettingsError(f"Plots need matplotlib, which is not installed: {remedy}", remedy=remedy) from error

__all__ = [
    "plot_coverage",
    "plot_feature_use",
    "plot_funnel",
    "plot_pair_use",
    "plot_precision_coverage",
    "plot_rule",
    "plot_search",
    "plot_similarity",
    "plot_tree",
]
