"""The null check: with shuffled labels there is nothing to find, and a run should publish nothing."""

from collections.abc import Iterator
from enum import StrEnum

import numpy as np
import pandas as pd

from bench.real_tables.draws import load_table
from bench.real_tables.ours import mine_frame
from bench.real_tables.records import Store
from bench.real_tables.registry import TABLES, RealTable
from bench.real_tables.scoring import Record

NULL_TABLES = ("saving", "stagec", "wine", "lung", "rossi", "diabetes", "german", "titanic")
"""100 to 2,207 rows, two and three classes; six of them have less than 500 rows."""
GROUP = "person"
"""The column of the group's number."""
COPIES = 4
"""Rows of a group."""


class Variant(StrEnum):
    """What is shuffled; also the name under which records are kept."""

    ROWS = "nulls"
    GROUPS = "nulls-groups"


def run_nulls(count: int, variant: Variant, store: Store, version: str) -> Iterator[Record]:
    """Yield the records of `count` runs, spread over the tables; those that are stored are not run again."""
    for number in range(count):
        name, seed = NULL_TABLES[number % len(NULL_TABLES)], number // len(NULL_TABLES)
        if store.has(variant, name, seed, version):
            continue
        frame = shuffle_labels(TABLES[name], load_table(TABLES[name]), seed)
        options = []
        if variant is Variant.GROUPS:
            frame, options = repeat_rows(frame), ["--group", GROUP]
        document, outcome = mine_frame(frame, TABLES[name], options)
        texts = None if document is None else [rule.text for rule in document.rules]
        record = {"method": variant.value, "table": name, "split": seed, "version": version, "texts": texts}
        record |= {"rules": None if texts is None else len(texts)}
        record |= {"failure": outcome.failure, "message": outcome.message, "cpu": outcome.cpu}
        store.add(record)
        yield record


def shuffle_labels(table: RealTable, frame: pd.DataFrame, seed: int) -> pd.DataFrame:
    shuffled = np.random.default_rng([seed, 14]).permutation(frame[table.target].to_numpy())
    return frame.assign(**{table.target: shuffled})


def repeat_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Every row several times, as measurements of one person would be, with the person's number."""
    return frame.assign(**{GROUP: np.arange(len(frame))}).loc[frame.index.repeat(COPIES)].reset_index(drop=True)
