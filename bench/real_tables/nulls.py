"""The null check: with shuffled labels there is nothing to find, and a run should publish nothing."""

from collections.abc import Iterator

import numpy as np

from bench.real_tables.draws import load_table
from bench.real_tables.ours import mine_frame
from bench.real_tables.records import Store
from bench.real_tables.registry import TABLES
from bench.real_tables.scoring import Record

METHOD = "nulls"
NULL_TABLES = ("saving", "stagec", "wine", "lung", "rossi", "diabetes", "german", "titanic")
"""100 to 2,207 rows, two and three classes; six of them have less than 500 rows."""


def run_nulls(count: int, store: Store, version: str) -> Iterator[Record]:
    """Yield the records of `count` runs, spread over the tables; those that are stored are not run again."""
    for number in range(count):
        name, seed = NULL_TABLES[number % len(NULL_TABLES)], number // len(NULL_TABLES)
        if store.has(METHOD, name, seed, version):
            continue
        table = TABLES[name]
        frame = load_table(table)
        shuffled = np.random.default_rng([seed, 14]).permutation(frame[table.target].to_numpy())
        document, outcome = mine_frame(frame.assign(**{table.target: shuffled}), table)
        texts = None if document is None else [rule.text for rule in document.rules]
        record = {"method": METHOD, "table": name, "split": seed, "version": version, "texts": texts}
        record |= {"rules": None if texts is None else len(texts)}
        record |= {"failure": outcome.failure, "message": outcome.message, "cpu": outcome.cpu}
        store.add(record)
        yield record
