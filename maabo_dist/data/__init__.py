"""From files, DataFrames and arrays to `Columns`, the prepared table that everything downstream works on."""

from maabo_dist.data.bundled import BUNDLED, load_bundled
from maabo_dist.data.columns import Columns
from maabo_dist.data.encoder import TableEncoder
from maabo_dist.data.features import Feature, FeatureKind
from maabo_dist.data.preparation import PreparedTable, frame_from_arrays, prepare
from maabo_dist.data.readers import read_table
from maabo_dist.data.split import Split, split_rows
from maabo_dist.data.target import Target, encode_target

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
