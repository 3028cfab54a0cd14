"""Mines a short list of reliable, dissimilar if–then rules from a wide table.

    from maabo_dist import RuleMiner
    RuleMiner().fit(X, y).get_rules()

Names are imported when they are first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from maabo_dist._version import __version__

if TYPE_CHECKING:
    from maabo_dist.data.columns import Columns
    from maabo_dist.data.preparation import prepare
    from maabo_dist.data.readers import read_table
    from maabo_dist.errors import MaaboError
    from maabo_dist.estimator import RuleMiner
    from maabo_dist.mining.local import mine
    from maabo_dist.mining.result import MiningResult
    from maabo_dist.new_data.use import apply_rules, apply_rules_to_file, check_rules
    from maabo_dist.report.stability import mine_with_repeats
    from maabo_dist.settings import MiningSettings, RepeatSettings, TableSettings

_HOMES = {
    "Columns": "data.columns",
    "MaaboError": "errors",
    "MiningResult": "mining.result",
    "MiningSettings": "settings",
    "RepeatSettings": "settings",
    "RuleMiner": "estimator",
    "TableSettings": "settings",
    "apply_rules": "new_data.use",
    "apply_rules_to_file": "new_data.use",
    "check_rules": "new_data.use",
    "mine": "mining.local",
    "mine_with_repeats": "report.stability",
    "prepare": "data.preparation",
    "read_table": "data.readers",
}

__all__ = [
    "Columns",
    "MaaboError",
    "MiningResult",
    "MiningSettings",
    "RepeatSettings",
    "RuleMiner",
    "TableSettings",
    "__version__",
    "apply_rules",
    "apply_rules_to_file",
    "check_rules",
    "mine",
    "mine_with_repeats",
    "prepare",
    "read_table",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
