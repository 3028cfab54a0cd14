"""Figure data: everything that figures of a result show beyond its document, as plain JSON values of bounded size.

Everything that a figure shows is computed here, once; the report's JavaScript and `maabo_dist.plots` only draw. The
data is made where the table and the trees are available, and stored next to the document, whose digest it carries.
Trees are not stored for it: the few that rules came from are grown again, which gives the same trees. The data depends
only on the columns, the settings, the rules and the versions that it names.
"""

import json
import platform
from functools import cache
from importlib.metadata import version
from typing import Any

from maabo_dist._version import __version__
from maabo_dist.data.columns import Columns
from maabo_dist.errors import SettingsError
from maabo_dist.mining.result import MiningResult
from maabo_dist.report.figures.examples import example_rows
from maabo_dist.report.figures.overview import Covering, feature_use, search_history
from maabo_dist.report.figures.rule_details import ClassGroups, draw_histograms, draw_trees
from maabo_dist.rules.publishing import TreeRecords
from maabo_dist.study import Study

FORMAT = "maabo-figures/1"
# Rules that have figures, in the order of selection; figures of more rules could not be read.
MAX_RULES = 200

_PACKAGES = ("numba", "numpy", "pandas", "scikit-learn")

FigureData = dict[str, Any]


def make_figures(result: MiningResult, study: Study, *, random: MiningResult | None = None) -> FigureData:
    """Return the figure data of a result that carries its records, from the study that it was mined from.

    `random` is a random search of the same table and budget, for comparison.
    """
    records, settings = _records(result), result.settings
    columns, split, table = study.columns, study.split, study.table
    rules = result.rules[:MAX_RULES]
    groups = ClassGroups.of(table.totals)
    covering = Covering(columns, split, rules)
    trees = draw_trees(table, columns, settings, rules, records, groups)
    histograms, histograms_of_rules = draw_histograms(columns, split, rules, groups)
    return {
        "format": FORMAT,
        "digest": result.digest,
        "versions": versions(),
        "classes": groups.names(columns.classes),
        "histograms": histograms,
        "rules": [
            {"id": rule.id, "histograms": indexes, "tree": tree}
            for rule, indexes, tree in zip(rules, histograms_of_rules, trees, strict=True)
        ],
        "examples": example_rows(rules, study),
        "coverage": covering.sample(settings.seed),
        "similarity": covering.similarity(),
        "use": feature_use(columns, records, settings.alpha),
        "history": search_history(result.rules, records),
        "random": None if random is None else search_history(random.rules, _records(random)),
    }


def figures_of(result: MiningResult, columns: Columns, *, random: MiningResult | None = None) -> FigureData:
    """Return the figure data from the columns that `mine` was called with; the study is built again."""
    return make_figures(result, Study.build(columns, result.settings), random=random)


def dump_figures(figures: FigureData) -> str:
    """Return the figure data as JSON text on one line."""
    return json.dumps(figures, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


def versions() -> dict[str, str]:
    """Return the versions of Python, this program and the packages that can change a result."""
    return {"python": platform.python_version(), "maabo-dist": __version__, **_package_versions()}


@cache
def _package_versions() -> dict[str, str]:
    """Their metadata is read from files."""
    return {name: version(name) for name in _PACKAGES}


def _records(result: MiningResult) -> TreeRecords:
    if result.records is None:
        raise SettingsError("This result has no record of its trees. Mine with keep_records=True.")
    return result.records
