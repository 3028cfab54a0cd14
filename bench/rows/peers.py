"""The peers, run in their own environment: `python peers.py duckdb|lightgbm FOLDER < request`. Prints JSON.

duckdb      {"rules": [condition of SQL, …]}: the rows of each class that each rule covers, as one query on one thread
lightgbm    {}: 100 trees on the whole table, on one thread
"""

import json
import resource
import sys
from time import perf_counter, process_time


def count_with_duckdb(folder: str, rules: list[str]) -> dict:
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    counts = ", ".join(f"count(*) FILTER (WHERE {rule})" for rule in rules)
    query = f"SELECT y, {counts} FROM read_parquet('{folder}/*.parquet') GROUP BY y"
    clock, wall = process_time(), perf_counter()
    rows = connection.execute(query).fetchall()
    seconds = {"cpu": process_time() - clock, "wall": perf_counter() - wall}
    return {"seconds": seconds, "counts": {row[0]: list(row[1:]) for row in rows}}


def train_lightgbm(folder: str) -> dict:
    import lightgbm
    import numpy as np
    from pyarrow import dataset

    clock, wall = process_time(), perf_counter()
    table = dataset.dataset(folder).to_table(use_threads=False)
    labels = np.unique(table["y"].to_numpy(zero_copy_only=False), return_inverse=True)[1]
    features = [name for name in table.column_names if name != "y"]
    matrix = np.empty((table.num_rows, len(features)), np.float32)
    for index, name in enumerate(features):
        cells = table[name].combine_chunks()
        texts = cells.type == "string"
        matrix[:, index] = (cells.dictionary_encode().indices if texts else cells).to_numpy(zero_copy_only=False)
    del table
    # One class against the others, as each of our findings is.
    options = {"objective": "binary", "num_threads": 1, "verbose": -1}
    lightgbm.train(options, lightgbm.Dataset(matrix, (labels == labels.max()).astype(int)), num_boost_round=100)
    return {"seconds": {"cpu": process_time() - clock, "wall": perf_counter() - wall}}


if __name__ == "__main__":
    peer, folder = sys.argv[1:3]
    request = json.load(sys.stdin)
    result = count_with_duckdb(folder, request["rules"]) if peer == "duckdb" else train_lightgbm(folder)
    print(json.dumps(result | {"megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
