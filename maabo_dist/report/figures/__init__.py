"""Figure data: everything that figures of a result show beyond its document, as plain JSON values of bounded size.

Made where the table and the trees are at hand, and kept beside the document, from which they can be told by its digest.
Trees are not kept for them: the few that rules came from are grown again, which gives the same trees. Everything here
is a function of the columns, the settings and the rules, and says with which versions: same seed, same figures.
"""

import json
from typing import Any

from maabo_dist.data.columns import Columns
from maabo_dist.errors import SettingsError
from maabo_dist.mining.result import MiningResult
from maabo_dist.report.figures.coverage import Covering
from maabo_dist.report.figures.histograms import ClassGroups, histograms
from maabo_dist.report.figures.search import feature_use, search_history
from maabo_dist.report.figures.trees import tree_pictures
from maabo_dist.report.versions import versions
from maabo_dist.rules.publishing import TreeRecords
from maabo_dist.study import Study

FORMAT = "maabo-figures/1"
MOST_RULES = 200
"""Rules that have figures, in the order of selection; of more the pictures could not be read."""

FigureData = dict[str, Any]


def make_figures(result: MiningResult, study: Study, *, random: MiningResult | None = None) -> FigureData:
    """The figures of a result that carries its records, from the study that it was mined from.

    `random`, if given, is a random search of the same table and budget, to be shown beside this one.
    """
    records, settings = _records(result), result.settings
    columns, split, table = study.columns, study.split, study.table
    rules = result.rules[:MOST_RULES]
    groups = ClassGroups.of(table.totals)
    covering = Covering.of(columns, split, rules)
    drawn, places = histograms(columns, split, rules, groups)
    return {
        "format": FORMAT,
        "digest": result.digest,
        "versions": versions(),
        "classes": groups.named(columns.classes),
        "histograms": drawn,
        "rules": [
            {"id": rule.id, "histograms": where, "tree": tree}
            for rule, where, tree in zip(
                rules, places, tree_pictures(table, columns, settings, rules, records, groups), strict=True
            )
        ],
        "coverage": covering.sampled(settings.seed),
        "similarity": covering.similarity(rules),
        "use": feature_use(columns, records, settings.alpha),
        "history": search_history(result.rules, records),
        "random": None if random is None else search_history(random.rules, _records(random)),
    }


def figures_of(result: MiningResult, columns: Columns, *, random: MiningResult | None = None) -> FigureData:
    """The same from the columns that `mine` was called with; split and training table are derived once more."""
    return make_figures(result, Study.build(columns, result.settings), random=random)


def dump_figures(figures: FigureData) -> str:
    """The figures as JSON text on one line."""
    return json.dumps(figures, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


def _records(result: MiningResult) -> TreeRecords:
    if result.records is None:
        raise SettingsError("This result kept no record of its trees. Mine with keep_records=True.")
    return result.records
