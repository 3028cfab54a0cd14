"""A real worker on a real Redis: messages in, answers on the stream."""

import numpy as np
import pytest

from maabo_dist.cluster.celery_app import make_celery
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.streams import BODY, HEADER, open_redis, results_stream
from maabo_dist.contract import names
from maabo_dist.contract.messages import Answer, pack_subsets
from maabo_dist.data.split import split_rows
from maabo_dist.store import FileStore
from maabo_dist.trees import TrainingTable, depth_search
from maabo_dist.trees.wire import unpack_forest
from tests import factories, servers

JOB = "0123456789abcdef" * 2
SPLIT = {"test_size": 0.3, "holdout": 0.0, "seed": 1, "stratify": False, "class_weight": "balanced"}


class Cluster:
    def __init__(self, settings, columns):
        self.settings, self.columns = settings, columns
        self.app, self.redis = make_celery(settings), open_redis(settings)

    def send(self, subsets, **changes):
        message = {
            "version": 1,
            "job": JOB,
            "batch": 0,
            "start": 0,
            "stop": len(subsets),
            "attempt": 0,
            "columns": self.columns.fingerprint,
            "split": SPLIT | {"version": 1, "min_samples_leaf": 1},
            "max_depth": 4,
            "subset_size": subsets.shape[1],
            "subsets": pack_subsets(subsets),
        }
        self.app.send_task(names.EVALUATE, kwargs=message | changes, queue=names.EVALUATE_QUEUE)

    def answers(self, count):
        stream = results_stream(self.settings, JOB)
        servers.wait_for(lambda: self.redis.xlen(stream) >= count, what=f"{count} answers")
        entries = self.redis.xrange(stream)
        self.redis.delete(stream)
        return [(Answer.read(fields[HEADER]), fields[BODY]) for _, fields in entries]


@pytest.fixture(scope="module", params=["prefork", "threads"])
def cluster(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("cluster")
    columns = factories.make_columns(np.random.default_rng(1), 80, 6, 2)
    with servers.redis_server(directory) as url:
        settings = ClusterSettings(
            redis_url=url,
            prefix="t:",
            store_url=f"file://{directory}/store",
            cache_dir=str(directory / "cache"),
        )
        columns.save(directory / "table")
        FileStore(settings.store_url).put(f"columns/{columns.fingerprint}", directory / "table")
        with servers.worker(settings, directory, "--pool", request.param, "-c", "2"):
            yield Cluster(settings, columns)


def subsets_of(cluster, size=2):
    return factories.every_subset(cluster.columns.count, size)


def test_a_worker_answers_with_the_trees_that_one_process_grows(cluster):
    subsets = subsets_of(cluster)
    split = split_rows(cluster.columns.labels, test_size=0.3, seed=1)
    expected = depth_search(TrainingTable.build(cluster.columns, split), subsets, 4)

    cluster.send(subsets)

    ((answer, body),) = cluster.answers(1)
    forest = unpack_forest(body, subsets)
    assert (answer.kind, answer.job, answer.stop) == ("done", JOB, len(subsets))
    assert np.array_equal(forest.scores, expected.scores)
    assert np.array_equal(forest.threshold, expected.threshold)


def test_a_table_that_is_not_in_the_store_is_said(cluster):
    cluster.send(subsets_of(cluster), columns="f" * 64)

    ((answer, _),) = cluster.answers(1)
    assert answer.kind == "failed"
    assert "holds no columns/ffff" in answer.reason
    assert answer.retryable


def test_subsets_out_of_range_are_refused_for_good(cluster):
    cluster.send(np.array([[0, 99]], np.int32))

    ((answer, _),) = cluster.answers(1)
    assert answer.kind == "failed"
    assert "names feature 99" in answer.reason
    assert not answer.retryable


def test_a_message_of_another_version_brings_no_worker_down(cluster):
    cluster.send(subsets_of(cluster), version=7)
    cluster.send(subsets_of(cluster), batch=5)

    ((answer, _),) = cluster.answers(1)
    assert (answer.kind, answer.batch) == ("done", 5)
