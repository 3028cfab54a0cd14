"""The pictures of the report as functions that return matplotlib axes, for notebooks.

    from maabo_dist.plots import plot_precision_coverage, plot_rule
    plot_precision_coverage(miner)
    plot_rule(miner, "R1")

Each takes a fitted `RuleMiner`, or a document and its figures as `read_run` gives them, or whichever of the two it
needs. `ax` draws into axes of yours, and nothing else is touched; without it a figure is made by pyplot. matplotlib is
the extra `plots`, and is imported when a function is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from maabo_dist.errors import SettingsError

if TYPE_CHECKING:
    from maabo_dist.plots.conditions import plot_rule
    from maabo_dist.plots.coverage import plot_coverage, plot_similarity
    from maabo_dist.plots.precision import plot_funnel, plot_precision_coverage
    from maabo_dist.plots.search import plot_feature_use, plot_pair_use, plot_search
    from maabo_dist.plots.tree import plot_tree

_HOMES = {
    "plot_coverage": "coverage",
    "plot_feature_use": "search",
    "plot_funnel": "precision",
    "plot_pair_use": "search",
    "plot_precision_coverage": "precision",
    "plot_rule": "conditions",
    "plot_search": "search",
    "plot_similarity": "coverage",
    "plot_tree": "tree",
}

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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise SettingsError(
            'Plots need matplotlib, which is not installed: pip install "maabo-dist[plots]"',
            remedy='pip install "maabo-dist[plots]"',
        ) from error


def __dir__() -> list[str]:
    return __all__
