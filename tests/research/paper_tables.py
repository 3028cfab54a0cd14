"""Tables of the paper's shapes, drawn at random."""

import numpy as np
import pandas as pd

BOSTON = ("CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE", "DIS", "RAD", "TAX", "PTRATIO", "LSTAT")


def titanic_like(rows=60, seed=1912):
    draw = np.random.default_rng(seed)
    female = draw.random(rows) < 0.4
    return pd.DataFrame(
        {
            "pclass": draw.integers(1, 4, rows),
            "sex": np.where(female, "female", "male"),
            "age": np.where(draw.random(rows) < 0.2, np.nan, draw.integers(1, 70, rows)),
            "sibsp": draw.integers(0, 3, rows),
            "parch": draw.integers(0, 3, rows),
            "fare": draw.gamma(2, 20, rows).round(2),
            "embarked": draw.choice(["C", "Q", "S"], rows),
            "survived": np.where(draw.random(rows) < 0.1, ~female, female).astype(int),
        }
    )


def boston_like(rows=60, seed=1978):
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame({name: draw.normal(size=rows).round(3) for name in BOSTON})
    return frame.assign(price=np.where(frame["RM"] > frame["LSTAT"], "high", "low"))


def write(folder, frame, name="table.csv"):
    path = folder / name
    frame.to_csv(path, index=False)
    return path
