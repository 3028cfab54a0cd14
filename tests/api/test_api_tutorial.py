"""The commands of the tutorial in docs/http-api.md, run in a shell on a synthetic table."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from maabo_dist.contract.problem import KINDS
from maabo_dist.contract.result import ResultDocument
from maabo_dist.rules.matching import match_cells
from scheduler.resources import Resources
from tests import servers
from tests.api_data import token_for

pytestmark = pytest.mark.xdist_group("shared-cluster")

DOCUMENT = (servers.ROOT / "docs" / "http-api.md").read_text()


def passengers():
    """A table with the columns of Titanic, rules to find and missing cells."""
    draw = np.random.default_rng(0)
    count = 1309
    frame = pd.DataFrame(
        {
            "pclass": draw.integers(1, 4, count),
            "sex": draw.choice(["female", "male"], count),
            "age": draw.integers(1, 80, count).astype(float),
            "sibsp": draw.integers(0, 4, count),
            "parch": draw.integers(0, 4, count),
            "fare": draw.gamma(2, 16, count).round(4),
            "embarked": draw.choice(["S", "C", "Q"], count),
        }
    )
    women = (frame["sex"] == "female") & (frame["pclass"] < 3)
    rich = (frame["fare"] > 40) & (frame["embarked"] == "C")
    likely = np.where(women | rich, 0.97, 0.1)
    frame["survived"] = (draw.random(count) < likely).astype(int)
    frame.loc[draw.random(count) < 0.2, "age"] = np.nan
    return frame


def test_the_tutorial_works_and_its_sql_returns_exactly_the_rows_of_each_rule(shared_cluster, tmp_path):
    missing = [program for program in ("bash", "curl", "jq") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"the tutorial needs {', '.join(missing)}, which is not installed")
    settings, address = shared_cluster
    with closing(Resources.connect(settings)) as resources:
        header = token_for(resources, "tutorial")["Authorization"]
    (tmp_path / ".curlrc").write_text(f'header = "Authorization: {header}"\n')
    passengers().to_csv(tmp_path / "titanic.csv", index=False)
    blocks = re.findall(r"<!-- tutorial -->\n```bash\n(.*?)```", DOCUMENT, re.DOTALL)
    environment = {
        "MAABO_SERVER": address,
        "CURL_HOME": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }

    script = "set -euo pipefail\n" + "echo '-----'\n".join(blocks)
    run = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert run.returncode == 0, run.stdout + run.stderr
    uploaded, queued, events, rules, rows = run.stdout.split("-----\n")
    assert json.loads(uploaded)["rows"] == 1309
    assert json.loads(queued)["state"] == "queued"
    assert re.search(r"^event: (\w+)$", events, re.MULTILINE)[1] == "state"
    assert events.rstrip().splitlines()[-2] == "event: end"
    assert rules.count("\n") == rows.count("\n") >= 2
    _check_rows(settings, tmp_path)


def _check_rows(settings, folder):
    """Each query returns the rows that its rule matches, as many as the document states."""
    with closing(Resources.connect(settings)) as resources:
        document = json.loads(resources.ledger.jobs.document(json.loads((folder / "job.json").read_text())["id"]))
    rows = (
        pd.read_csv(folder / "titanic.csv").astype(object).where(lambda frame: frame.notna(), None).to_dict("records")
    )
    expected = match_cells([rule.premise for rule in ResultDocument.parse(document).rules], rows)
    queries = (folder / "rules.sql").read_text().split(";")[:-1]
    assert len(queries) == len(document["rules"])
    with closing(sqlite3.connect(folder / "titanic.db")) as database:
        for index, (rule, query) in enumerate(zip(document["rules"], queries, strict=True)):
            numbered = query.replace("AS rule, *", "AS rule, rowid - 1", 1)
            selected = {number for _, number in database.execute(numbered)}
            assert selected == set(expected[index].nonzero()[0].tolist())
            assert len(selected) == sum(rule[part]["n"] for part in ("train", "validation", "holdout"))


def test_every_kind_of_problem_is_documented():
    documented = re.findall(r"^\| `([a-z-]+)` \| (\d+) \|", DOCUMENT, re.MULTILINE)

    assert {name: int(status) for name, status in documented} == {name: status for name, (status, _) in KINDS.items()}
