"""Repeats on a real cluster: concurrent jobs give the same document as one process."""

import json

import pytest

from tests import servers
from tests.cli.conftest import maabo
from tests.cluster import a_scheduler, cluster_settings

__all__ = ["maabo"]

ASKED = (
    "--dataset",
    "breast_cancer",
    "--preset",
    "auto",
    "--trees",
    "60",
    "--holdout",
    "0.2",
    "--repeats",
    "3",
    "--json",
)


def timeless(text):
    document = json.loads(text)
    document["search"]["seconds"] = document["certificate"]["seconds"] = 0
    return document


@pytest.mark.soak
def test_submitted_repeats_give_the_document_of_mine(tmp_path, maabo, monkeypatch):
    with servers.redis_server(tmp_path) as url:
        settings = cluster_settings(url, tmp_path)
        monkeypatch.setenv("MAABO_REDIS", url)
        with a_scheduler(settings), servers.worker(settings, tmp_path, "--pool", "threads", "-c", "2"):
            code, submitted, _ = maabo("submit", *ASKED, "--wait", "--quiet")
    _, mined, _ = maabo("mine", *ASKED, "--quiet")

    assert code == 0
    assert timeless(submitted) == timeless(mined)
    assert timeless(mined)["repeats"]["done"] == 3
    assert timeless(mined)["repeats"]["consensus"]
