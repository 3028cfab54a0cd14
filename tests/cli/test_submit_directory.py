"""`maabo submit DIR` and the clients over a real server, a real scheduler and a real worker: as `maabo mine DIR`."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from maabo_dist.client import Client, ProblemError
from scheduler.ledger.tenants import make_token
from tests import servers
from tests.cluster import a_scheduler, cluster_settings

pytestmark = pytest.mark.xdist_group("submit-directory")

ROWS = 210_000
QUICK = ("--target", "y", "--trees", "20", "--sample", "3000", "--wait", "--json")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Yields the address of Redis, of a server, a token, and the table directory."""
    folder = tmp_path_factory.mktemp("directories")
    tables = folder / "tables"
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"x{index}": rng.normal(size=ROWS).round(2) for index in range(4)})
    frame["y"] = np.where((frame["x0"] > 1) & (rng.random(ROWS) < 0.9), "high", "low")
    for name, rows in (("sales", ROWS), ("changing", ROWS), ("small", 5000)):
        (tables / name).mkdir(parents=True)
        frame.head(rows // 2).to_parquet(tables / name / "1.parquet", index=False, row_group_size=30_000)
        frame.iloc[rows // 2 : rows].to_parquet(tables / name / "2.parquet", index=False, row_group_size=30_000)
    with servers.redis_server(folder) as url:
        settings = cluster_settings(url, folder, partial_seconds=0.2, tables_url=f"file://{tables}")
        with (
            servers.http_server(settings, folder) as address,
            servers.worker(settings, folder, "-P", "threads", "-c", "1", "--without-mingle", "--without-gossip"),
            a_scheduler(settings) as ledger,
        ):
            token = make_token("us", frozenset(("read", "submit")), 1.0, name="", seconds=None)
            ledger.tokens.add(token.row)
            yield url, address, token.text, tables


@pytest.fixture
def by_redis(maabo, cluster, monkeypatch):
    monkeypatch.setenv("MAABO_REDIS", cluster[0])
    return maabo


@pytest.fixture
def by_http(maabo, cluster, monkeypatch):
    monkeypatch.setenv("MAABO_SERVER", cluster[1])
    monkeypatch.setenv("MAABO_TOKEN", cluster[2])
    return maabo


def timeless(text):
    document = json.loads(text)
    document["search"]["seconds"] = document["certificate"]["seconds"] = 0
    return document


@pytest.fixture
def mined(maabo, cluster):
    """The document of one process."""
    code, out, err = maabo("mine", cluster[3] / "sales", *[each for each in QUICK if each != "--wait"], "--jobs", "1")
    assert code == 0, err
    return timeless(out)


def test_a_directory_submitted_through_redis_is_mined_as_by_one_process(by_redis, cluster, mined):
    code, out, err = by_redis("submit", cluster[3] / "sales", *QUICK)

    assert code == 0, err
    assert timeless(out) == mined


def test_a_directory_of_the_server_is_mined_as_by_one_process(by_http, mined):
    code, out, err = by_http("submit", "sales", *QUICK)

    assert code == 0, err
    document = timeless(out)
    assert document["rules"] == mined["rules"]
    assert document["digest"] == mined["digest"]
    assert document["dataset"]["sample"] == mined["dataset"]["sample"]


def test_the_client_describes_and_mines_a_directory(cluster, mined):
    with Client(cluster[1], cluster[2]) as client:
        dataset = client.use_directory("sales")
        details = client.dataset(dataset.id)
        job = client.submit(dataset, target="y", trees=20, sample=3000)
        job.wait(timeout=120)

        assert (dataset.format, dataset.rows, dataset.columns) == ("directory", ROWS, 5)
        assert details.path == "sales"
        assert [column.name for column in details.features] == ["x0", "x1", "x2", "x3", "y"]
        assert client.use_directory("sales").id == dataset.id
        assert job.document().digest == mined["digest"]


def test_a_small_directory_is_a_table_like_others(cluster):
    with Client(cluster[1], cluster[2]) as client:
        dataset = client.use_directory("small")

        assert (dataset.format, dataset.rows) == ("parquet", 5000)


def test_a_directory_elsewhere_is_refused(by_redis, cluster, tmp_path):
    for file in (cluster[3] / "sales").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())

    code, _, err = by_redis("submit", tmp_path, *QUICK)

    assert code == 2
    assert "is not in the table directory of the cluster" in err
    assert "maabo mine" in err


@pytest.mark.parametrize(
    ("request_", "field", "word"),
    [
        ({"path": "absent"}, "path", "no table 'absent'"),
        ({"path": ".."}, "path", "not the path"),
    ],
)
def test_paths_that_are_no_directory_are_rejected(cluster, request_, field, word):
    with Client(cluster[1], cluster[2]) as client, pytest.raises(ProblemError) as caught:
        client.use_directory(**request_)

    assert caught.value.field == field
    assert word in str(caught.value)
    assert str(cluster[3]) not in str(caught.value)


def test_jobs_that_do_not_fit_a_directory_are_rejected(cluster):
    with Client(cluster[1], cluster[2]) as client:
        dataset, small = client.use_directory("sales"), client.use_directory("small")
        for options, word in [
            ({"sample": 3000}, "target"),
            ({"target": "y", "sample": 10**6}, "not smaller"),
            ({"target": "y", "sample": 3000, "weight": "x0"}, "--weight"),
        ]:
            with pytest.raises(ProblemError, match=word):
                client.submit(dataset, **options)
        with pytest.raises(ProblemError, match="as a whole"):
            client.submit(small, target="y", sample=3000)


def test_a_sample_of_a_directory_that_the_server_searches_as_a_whole_is_an_error(by_http):
    code, _, err = by_http("submit", "small", "--target", "y", "--sample", "50")

    assert code == 2
    assert "--sample 50: small has" in err


def test_files_that_changed_since_the_table_was_created_are_noticed(cluster):
    with Client(cluster[1], cluster[2]) as client:
        dataset = client.use_directory("changing")
        path = Path(cluster[3], "changing", "2.parquet")
        path.write_bytes(path.with_name("1.parquet").read_bytes())

        with pytest.raises(ProblemError, match="have changed"):
            client.submit(dataset, target="y")
        assert client.use_directory("changing").id != dataset.id
