"""Small tables for the commands."""

import numpy as np
import pandas as pd


def numbers(rows=200, columns=5, seed=1):
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame(draw.normal(size=(rows, columns)), columns=[f"x{index}" for index in range(columns)])
    return frame.assign(y=np.where(frame["x0"] + frame["x1"] > 0, "yes", "no"))


def write_csv(folder, frame, name="table.csv"):
    path = folder / name
    frame.to_csv(path, index=False)
    return path
