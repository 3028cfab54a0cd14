"""Tables of any number of rows × 50 columns with planted rules, in Parquet files.

gold    0.6 % of the rows; 90 % of those with x3 > 2.3 and k0 ≤ 4, which are 0.1 % of the rows
rare    0.1 % of the rows; 10 % of those with c0 = a, x5 > 1.2 and x6 > 0.5, which are 0.4 %
yes     a tenth of the rows; 60 % of those with x1 > 1 and x2 ≤ -0.5, which are 5 %
no      the others
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

NUMBERS, WHOLE, TEXTS = 44, 3, 3
LEVELS = np.array(list("abcdefgh"))
# The columns of each planted rule, by its class.
PLANTED = {"gold": {"x3", "k0"}, "rare": {"c0", "x5", "x6"}, "yes": {"x1", "x2"}}
FILE_ROWS, GROUP_ROWS = 500_000, 1 << 17


def write_table(folder: Path, rows: int, seed: int) -> None:
    """Write files of at most 500,000 rows each; one file is in memory at a time."""
    folder.mkdir(parents=True)
    for number, start in enumerate(range(0, rows, FILE_ROWS)):
        rng = np.random.default_rng([seed, number])
        table = pa.table(_make_columns(rng, min(FILE_ROWS, rows - start)))
        parquet.write_table(table, folder / f"part-{number:03d}.parquet", row_group_size=GROUP_ROWS)


def _make_columns(rng: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
    table = {f"x{index}": rng.normal(size=rows).round(3) for index in range(NUMBERS)}
    table["x7"][rng.random(rows) < 0.05] = np.nan
    table |= {f"k{index}": rng.integers(0, 50, rows) for index in range(WHOLE)}
    table |= {f"c{index}": LEVELS[rng.integers(0, len(LEVELS), rows)] for index in range(TEXTS)}
    return table | {"y": _make_classes(rng, table, rows)}


def _make_classes(rng: np.random.Generator, table: dict[str, np.ndarray], rows: int) -> np.ndarray:
    def some(share: float) -> np.ndarray:
        return rng.random(rows) < share

    classes = np.where(some(0.08), "yes", "no").astype(object)
    classes[(table["x1"] > 1) & (table["x2"] <= -0.5) & some(0.6)] = "yes"
    classes[some(0.005)] = "gold"
    classes[(table["x3"] > 2.3) & (table["k0"] <= 4) & some(0.9)] = "gold"
    classes[some(0.0006)] = "rare"
    classes[(table["c0"] == "a") & (table["x5"] > 1.2) & (table["x6"] > 0.5) & some(0.1)] = "rare"
    return classes
