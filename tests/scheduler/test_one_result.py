"""The digest is that of `mine` for any number and kind of workers."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from maabo_dist.contract.job import JobState
from maabo_dist.data.bundled import load_bundled
from maabo_dist.data.preparation import prepare
from maabo_dist.data.weights import weight_units
from maabo_dist.mining.local import mine
from maabo_dist.settings import MiningSettings
from tests import factories, servers
from tests.cluster import a_scheduler, cluster_settings, ended, submit

WIDTHS = [(1, 1), (16, 4), (64, 8)]
"""Batch and batches in flight."""
MINING = {
    "diabetes": {"trees": 40, "max_depth": 3, "seed": 2, "all": True},
    "breast_cancer": {"trees": 80, "seed": 4, "all": True, "certify": "off"},
    "generated": {"trees": 40, "min_samples": 20, "seed": 6, "all": True, "certify": "off", "complete": "pairs"},
    "triples": {"trees": 40, "min_samples": 20, "seed": 6, "all": True, "certify": "off", "complete": "triples"},
    "probed": {"trees": 40, "max_depth": 3, "seed": 3, "probes": 20},
    "wine": {"trees": 24, "min_samples": 20, "seed": 3, "subset_size": "1-3", "certify": 24},
    "limited": {
        "trees": 40,
        "seed": 5,
        "all": True,
        "certify": "off",
        "always": ["worst texture"],
        "one_of": [["mean radius", "mean area", "mean perimeter"], ["worst radius", "worst area"]],
    },
    "grouped": {"trees": 4, "seed": 1, "all": True},
    "weighted": {"trees": 4, "seed": 1, "all": True},
    "timed": {"trees": 4, "seed": 1, "all": True, "certify": "off", "holdout": 0.3},
}
"""The short list of findings is often the same for different searches; all certified rules are not."""
SETUPS = [(pool, processes) for pool in ("prefork", "threads") for processes in (1, 2, 4)]
IN_CI = {("prefork", 2)}
"""The others are run by `make soak`."""


@cache
def table(name):
    """Return a bundled table, one whose rows have groups, times or weights, or a wide one."""
    if name == "grouped":
        return factories.make_people(1, groups=200, rows=4, effect=0.5)
    if name == "weighted":
        columns = factories.make_clear(np.random.default_rng(6), rows=300, features=4)
        return replace(columns, weights=weight_units(np.random.default_rng(6).gamma(2, 1, 300)))
    if name == "timed":
        columns = factories.make_clear(np.random.default_rng(5), rows=300, features=4)
        return replace(columns, times=columns.column(3).round(1), roles={"time": "x3"})
    if name not in {"generated", "triples"}:
        return prepare(*load_bundled("breast_cancer" if name in {"probed", "limited"} else name)).columns
    rng = np.random.default_rng(11)
    matrix = rng.normal(size=(1000 if name == "generated" else 200, 300))
    labels = (matrix[:3].sum(axis=0) + rng.normal(size=300) / 2 > 0).astype(np.int32)
    return factories.columns_of(matrix, labels)


def mining_of(name, width):
    return MINING[name] | dict(zip(("batch", "in_flight"), width, strict=True))


@cache
def expected():
    """Return the digests of one process by table and width."""
    return {
        (name, width): mine(table(name), MiningSettings.parse(mining_of(name, width))).digest
        for name in MINING
        for width in WIDTHS
    }


@pytest.mark.parametrize(
    ("pool", "processes"),
    [pytest.param(*setup, marks=pytest.mark.slow if setup in IN_CI else pytest.mark.soak) for setup in SETUPS],
)
def test_the_digest_does_not_depend_on_the_number_of_workers(tmp_path, pool, processes):
    with servers.redis_server(tmp_path) as url:
        settings = cluster_settings(url, tmp_path, task_seconds=0.01)
        with a_scheduler(settings) as ledger, servers.worker(settings, tmp_path, "--pool", pool, "-c", str(processes)):
            jobs = {
                (name, width): submit(settings, tmp_path, table(name), **mining_of(name, width))
                for name in MINING
                for width in WIDTHS
            }
            rows = {case: ended(ledger, job, 120) for case, job in jobs.items()}

    assert {row.state for row in rows.values()} == {JobState.DONE}
    assert {case: row.digest for case, row in rows.items()} == expected()
    assert {case: row.trees for case, row in rows.items()} == {case: MINING[case[0]]["trees"] for case in rows}


@pytest.mark.slow
def test_the_digests_compared_are_of_different_searches():
    assert len(set(expected().values())) >= 10
