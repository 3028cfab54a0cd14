"""The outputs in the README are those of the program."""

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def customers(rows=400):
    draw = np.random.default_rng(3)
    numbers = {"age": draw.integers(18, 80, rows), "calls": draw.poisson(2, rows), "spent": draw.gamma(2, 9, rows)}
    frame = pd.DataFrame({**numbers, "plan": draw.choice(["basic", "plus"], rows)})
    return frame.assign(churned=np.where((frame["calls"] > 2) & (frame["plan"] == "basic"), "yes", "no"))


def without_times(text):
    """Replace times, which vary, and strip spaces at the ends of lines."""
    return [re.sub(r"in [\d.]+ m?s", "in … s", line).rstrip() for line in text.strip().splitlines()]


def test_the_first_example_shows_the_actual_output(maabo, monkeypatch):
    monkeypatch.setenv("COLUMNS", "76")
    (command, expected) = re.search(
        r"```console\n\$ (maabo mine --dataset diabetes)\n(.*?)```", README, re.DOTALL
    ).groups()
    code, out, _ = maabo(*shlex.split(command)[1:])

    assert code == 0
    assert without_times(out) == without_times(expected)


def test_the_commands_for_your_own_table_run_as_written(maabo, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    customers().to_csv("customers.csv", index=False)
    customers().assign(price=lambda frame: frame["age"] * 1.5 + frame["calls"]).to_parquet("prices.parquet")
    commands = re.findall(r"^maabo (mine .*)$", README, re.MULTILINE)

    printed = [maabo(*shlex.split(command)) for command in commands]

    assert len(commands) == 3
    assert [code for code, _, _ in printed] == [0, 0, 0]
    assert 'FROM "customers"' in printed[2][1]


def test_the_python_example_runs_as_written():
    code = re.search(r"```python\n(from maabo_dist import RuleMiner.*?)```", README, re.DOTALL)[1]
    namespace = {"frame": customers()}
    exec(code, namespace)

    assert len(namespace["miner"].get_rules()) >= 1
