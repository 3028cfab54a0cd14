"""From files, DataFrames and arrays to `Columns`, the prepared table that everything downstream works on.

Names are imported when they are first used: who works on prepared tables never loads pandas.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maabo_dist.data.bundled import BUNDLED, load_bundled
    from maabo_dist.data.columns import Columns, Feature, FeatureKind
    from maabo_dist.data.encoder import TableEncoder
    from maabo_dist.data.preparation import PreparedTable, frame_from_arrays, prepare
    from maabo_dist.data.readers import read_table
    from maabo_dist.data.split import Split, split_rows
    from maabo_dist.data.target import Target, encode_target

_HOMES = {
    "BUNDLED": "bundled",
    "Columns": "columns",
    "Feature": "columns",
    "FeatureKind": "columns",
    "PreparedTable": "preparation",
    "Split": "split",
    "TableEncoder": "encoder",
    "Target": "target",
    "encode_target": "target",
    "frame_from_arrays": "preparation",
    "load_bundled": "bundled",
    "prepare": "preparation",
    "read_table": "readers",
    "split_rows": "split",
}

__all__ = [
    "BUNDLED",
    "Columns",
    "Feature",
    "FeatureKind",
    "PreparedTable",
    "Split",
    "TableEncoder",
    "Target",
    "encode_target",
    "frame_from_arrays",
    "load_bundled",
    "prepare",
    "read_table",
    "split_rows",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
