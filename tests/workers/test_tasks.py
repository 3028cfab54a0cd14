"""A real worker on a real Redis: messages in, answers on the stream."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from operator import itemgetter
from pathlib import Path

import numpy as np
import pytest

from maabo_dist._util.files import file_digest
from maabo_dist.cluster.broker import make_celery
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.store import FileStore
from maabo_dist.cluster.streams import (
    BODY,
    HEADER,
    RULES_HEADER,
    SCREEN_HEADER,
    SHUFFLE_HEADER,
    open_redis,
    results_stream,
)
from maabo_dist.contract import names
from maabo_dist.contract.messages import (
    EvaluationAnswer,
    Request,
    RulesAnswer,
    ScreenAnswer,
    ShuffleAnswer,
    pack_subsets,
)
from maabo_dist.data.split import split_rows
from maabo_dist.findings.wire import pack_searches, unpack_searches
from maabo_dist.mining.local import mine
from maabo_dist.mining.shuffles import ShufflePlan, run_shuffles
from maabo_dist.report.coverage import with_coverage
from maabo_dist.report.document import result_document
from maabo_dist.screens.blocks import SIXTHS, TENTHS, THIRDS
from maabo_dist.screens.pairs import BitTable, Pairs, PairTable, screen_block
from maabo_dist.screens.triples import Triples, TripleTable, screen_triple_block
from maabo_dist.screens.wire import pack_pairs, pack_triples, unpack_pairs
from maabo_dist.settings import MiningSettings
from maabo_dist.study import Study, split_for
from maabo_dist.trees.training import TrainingTable, depth_search
from maabo_dist.trees.wire import pack_forest, unpack_forest, write_segment
from tests import factories, forked, servers
from workers.tasks import EvaluateTask

JOB = "0123456789abcdef" * 2
SPLIT = {"test_size": 0.3, "holdout": 0.0, "seed": 1, "stratify": False, "class_weight": "balanced"}


class Cluster:
    def __init__(self, settings, columns, log_path):
        self.settings, self.columns, self.log = settings, columns, log_path.read_text
        self.app, self.redis = make_celery(settings), open_redis(settings)

    def send(self, subsets, **changes):
        message = {
            "version": 2,
            "job": JOB,
            "batch": 0,
            "start": 0,
            "stop": len(subsets),
            "attempt": 0,
            "columns": self.columns.fingerprint,
            "split": SPLIT | {"version": 2, "min_samples_leaf": 1},
            "max_depth": 4,
            "subset_size": subsets.shape[1],
            "subsets": pack_subsets(subsets),
        }
        self.app.send_task(names.EVALUATE, kwargs=message | changes, queue=names.EVALUATE_QUEUE)

    def screen(self, start, stop, **changes):
        message = {
            "job": JOB,
            "number": 1,
            "blocks": 1,
            "start": start,
            "stop": stop,
            "attempt": 0,
            "columns": self.columns.fingerprint,
            "split": SPLIT | {"min_samples_leaf": 1},
            "most": 4,
        }
        self.app.send_task(names.SCREEN, kwargs=message | changes, queue=names.EVALUATE_QUEUE)

    def entries(self, count):
        stream = results_stream(self.settings, JOB)
        servers.wait_for(lambda: self.redis.xlen(stream) >= count, what=f"{count} answers")
        entries = self.redis.xrange(stream)
        self.redis.delete(stream)
        return [fields for _, fields in entries]

    def answers(self, count):
        return [(EvaluationAnswer.read(fields[HEADER]), fields[BODY]) for fields in self.entries(count)]


@pytest.fixture(scope="module", params=["prefork", pytest.param("threads", marks=pytest.mark.soak)])
def cluster(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("cluster")
    columns = factories.make_clear(np.random.default_rng(1), 80, 6)
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
            yield Cluster(settings, columns, directory / "worker.log")


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


def parts_of(subsets, *cuts):
    """The parts after the first of a message whose subsets are divided at these positions."""
    return [
        {"batch": number, "start": 0, "stop": stop - start, "attempt": 0, "subsets": pack_subsets(subsets[start:stop])}
        for number, (start, stop) in enumerate(pairwise([*cuts, len(subsets)]), 1)
    ]


def test_the_parts_of_a_message_are_answered_like_messages_of_their_own(cluster):
    subsets = subsets_of(cluster)
    for number, (start, stop) in enumerate([(0, 4), (4, 5), (5, len(subsets))]):
        cluster.send(subsets[start:stop], batch=number)
    alone = sorted(cluster.answers(3), key=lambda pair: pair[0].batch)

    cluster.send(subsets[:4], more=parts_of(subsets, 4, 5))
    together = cluster.answers(3)

    assert [body for _, body in together] == [body for _, body in alone]
    assert [(answer.batch, answer.stop, answer.part) for answer, _ in together] == [
        (answer.batch, answer.stop, number) for number, (answer, _) in enumerate(alone)
    ]
    assert all(answer.seconds > 0 for answer, _ in together)


def test_every_part_of_a_message_that_cannot_be_begun_or_is_lost_is_answered(cluster):
    subsets = subsets_of(cluster)
    message = {"job": JOB, "batch": 0, "start": 0, "stop": 4, "attempt": 0, "more": parts_of(subsets, 4, 5)}
    cluster.send(subsets[:4], more=parts_of(subsets, 4, 5), columns="f" * 64)
    unavailable = cluster.answers(3)

    EvaluateTask(cluster.settings, None, None).report_loss(message, "signal 9")
    lost = cluster.answers(3)

    assert {answer.kind for answer, _ in unavailable} == {"unavailable"}
    assert {answer.kind for answer, _ in lost} == {"lost"}
    assert [[(answer.batch, answer.part) for answer, _ in each] for each in (unavailable, lost)] == [
        [(0, 0), (1, 1), (2, 2)]
    ] * 2


def test_a_table_that_is_not_in_the_store_is_reported(cluster):
    cluster.send(subsets_of(cluster), columns="f" * 64)

    ((answer, _),) = cluster.answers(1)
    assert answer.kind == "unavailable"
    assert f"columns/{'f' * 64} is not in the artifact store" in answer.reason


def test_subsets_out_of_range_fail_with_a_reason(cluster):
    cluster.send(np.array([[0, 99]], np.int32))

    ((answer, _),) = cluster.answers(1)
    assert answer.kind == "failed"
    assert "names feature 99" in answer.reason


def test_a_message_of_another_version_is_refused_in_that_version_and_brings_no_worker_down(cluster):
    cluster.send(subsets_of(cluster), version=7)
    cluster.send(subsets_of(cluster), batch=5)

    refused, done = sorted((json.loads(fields[HEADER]) for fields in cluster.entries(2)), key=itemgetter("batch"))
    assert (refused["kind"], refused["version"]) == ("unavailable", 7)
    assert "version 7" in refused["reason"]
    assert (done["kind"], done["batch"]) == ("done", 5)


def test_a_worker_screens_as_one_process_does(cluster):
    split = split_rows(cluster.columns.labels, test_size=0.3, seed=1)
    expected = screen_block(PairTable.build(BitTable.build(cluster.columns, split)), 1, 3, 4)

    cluster.screen(1, 3)

    (fields,) = cluster.entries(1)
    answer, pairs = ScreenAnswer.read(fields[SCREEN_HEADER]), unpack_pairs(fields[BODY], 1, 3, cluster.columns.count, 4)
    assert (answer.kind, answer.job, answer.start, answer.stop) == ("done", JOB, 1, 3)
    assert np.array_equal(pairs.features, expected.features)
    assert np.array_equal(pairs.strengths, expected.strengths)


@pytest.mark.parametrize(("first", "cuts"), [(0, TENTHS), (6, SIXTHS)])
def test_a_worker_screens_at_finer_cuts_too_if_asked_to(cluster, first, cuts):
    split = split_rows(cluster.columns.labels, test_size=0.3, seed=1)
    tables = [BitTable.build(cluster.columns, split, each) for each in (THIRDS, cuts)]
    if first:
        parts = [screen_triple_block(TripleTable.build(table), 1, 3, 4) for table in tables]
        expected = pack_triples(Triples.strongest(parts, 4))
    else:
        expected = pack_pairs(Pairs.strongest([screen_block(PairTable.build(table), 1, 3, 4) for table in tables], 4))

    cluster.screen(first + 1, first + 3, fine=True)

    (fields,) = cluster.entries(1)
    assert fields[BODY] == expected


@pytest.mark.parametrize(
    ("changes", "kind", "reason"),
    [
        ({"columns": "f" * 64}, "unavailable", f"columns/{'f' * 64} is not in the artifact store"),
        ({"version": 7}, "unavailable", "version 7"),
        ({"start": 2, "stop": 99}, "failed", "not a block of 6 features"),
        ({"start": 2, "stop": 2}, "failed", "not a block of 6 features"),
    ],
)
def test_a_block_that_cannot_be_screened_is_reported(cluster, changes, kind, reason):
    cluster.screen(**{"start": 1, "stop": 3} | changes)

    (fields,) = cluster.entries(1)
    answer = json.loads(fields[SCREEN_HEADER])
    assert (answer["kind"], answer["version"]) == (kind, changes.get("version", 2))
    assert reason in answer["reason"]


def mine_message(cluster, trees=12, **changes):
    """Store the trees of a search as a scheduler would, and return the message that requests their rules."""
    mining = MiningSettings(trees=trees, subset_size=2, max_depth=4, min_samples=5, seed=1, certify=24)
    result = mine(cluster.columns, mining, keep_trees=True)
    half = len(result.forest) // 2
    digests = []
    for part in (slice(0, half), slice(half, None)):
        subsets = result.forest.subsets[part]
        table = TrainingTable.build(cluster.columns, split_for(cluster.columns, mining))
        path = Path(cluster.settings.cache_dir) / f"part{len(digests)}"
        forest = depth_search(table, subsets, 4, whole=mining.whole_trees)
        digests.append(write_segment(path, [(subsets, pack_forest(forest))]))
        FileStore(cluster.settings.store_url).put(f"trees/{digests[-1]}", path)
    document = {
        "id": JOB,
        "dataset": {"fingerprint": cluster.columns.fingerprint, "name": "made up", "notes": ["A note."]},
        "settings": mining.model_dump(mode="json"),
    }
    message = {"spec": document, "attempt": 3, "final": True, "segments": digests, "seconds": 1.5, "stopped": "budget"}
    return result, message | changes


# The parts of a document that contain durations.
UNTIMED = {"search": None, "certificate": None}


def test_rules_from_the_store_are_those_of_one_process(cluster):
    result, message = mine_message(cluster)

    cluster.app.send_task(names.RULES, kwargs=message, queue=names.RULES_QUEUE)

    ((fields),) = cluster.entries(1)
    answer, document = RulesAnswer.read(fields[RULES_HEADER]), json.loads(fields[BODY])
    expected = with_coverage(result_document(replace(result, notes=("A note.",)), {"name": "made up"}), cluster.columns)
    assert (answer.kind, answer.attempt, answer.final) == ("done", 3, True)
    assert (answer.digest, answer.rules, answer.trees) == (result.digest, len(result.rules), 12)
    assert document["rules"]
    assert document["certificate"].pop("shuffles") == 24
    assert document | UNTIMED == expected.to_json() | UNTIMED


def test_the_searches_that_rules_need_can_be_run_as_tasks_of_their_own(cluster):
    result, message = mine_message(cluster)
    cluster.app.send_task(names.RULES, kwargs=message | {"plan_shuffles": True}, queue=names.RULES_QUEUE)
    (fields,) = cluster.entries(1)
    plan = RulesAnswer.read(fields[RULES_HEADER])
    assert (plan.kind, plan.shuffles, plan.undecided, fields[BODY]) == ("done", 24, None, b"")

    bodies = {}
    for start, stop in ((0, 1), (1, 24)):
        shuffle = {"spec": message["spec"], "start": start, "stop": stop, "planned": 24, "attempt": 2}
        cluster.app.send_task(names.SHUFFLE, kwargs=shuffle, queue=names.EVALUATE_QUEUE)
    for fields in cluster.entries(2):
        answer = ShuffleAnswer.read(fields[SHUFFLE_HEADER])
        assert (answer.kind, answer.job, answer.attempt) == ("done", JOB, 2)
        bodies[answer.start] = fields[BODY]
    searches = unpack_searches(bodies[0], 1) + unpack_searches(bodies[1], 23)
    study = Study.build(cluster.columns, MiningSettings.parse(message["spec"]["settings"]))
    assert searches == run_shuffles(study, ShufflePlan(24)).searches

    path = Path(cluster.settings.cache_dir) / "searches"
    path.write_bytes(pack_searches(searches))
    digest = file_digest(path)
    FileStore(cluster.settings.store_url).put(f"shuffles/{digest}", path)
    stored = {"digest": digest, "count": 24, "planned": 24, "seconds": 2.5}
    cluster.app.send_task(names.RULES, kwargs=message | {"shuffled": stored}, queue=names.RULES_QUEUE)
    (fields,) = cluster.entries(1)
    document = json.loads(fields[BODY])
    assert RulesAnswer.read(fields[RULES_HEADER]).digest == result.digest
    assert document["certificate"] == {"level": 0.05, "shuffles": 24, "planned": 24, "seconds": 2.5, "stopped": False}
    assert [rule["certificate"] for rule in document["rules"]] == [
        rule.certificate.model_dump(mode="json") for rule in result.rules
    ]


def test_searches_that_are_not_in_the_store_are_reported(cluster):
    stored = {"digest": "e" * 64, "count": 24, "planned": 24, "seconds": 2.5}
    _, message = mine_message(cluster, shuffled=stored)

    cluster.app.send_task(names.RULES, kwargs=message, queue=names.RULES_QUEUE)

    (fields,) = cluster.entries(1)
    answer = RulesAnswer.read(fields[RULES_HEADER])
    assert answer.kind == "unavailable"
    assert f"shuffles/{'e' * 64} is not in the artifact store" in answer.reason


def test_a_worker_stops_a_long_search_of_a_job_that_has_ended(cluster):
    mining = MiningSettings(subset_size=3, batch=1, in_flight=1, certify=24)
    spec = {"id": JOB, "dataset": {"fingerprint": cluster.columns.fingerprint}}
    key = cluster.settings.key(f"{names.JOB_ENDED}:{JOB}")
    cluster.redis.set(key, b"", ex=60)
    shuffle = {"spec": spec | {"settings": mining.model_dump(mode="json")}, "planned": 100_000, "attempt": 0}

    cluster.app.send_task(names.SHUFFLE, kwargs=shuffle | {"start": 0, "stop": 100_000}, queue=names.EVALUATE_QUEUE)
    servers.wait_for(lambda: "stopped: the job has ended" in cluster.log(), 30, what="the end of the task")

    assert not cluster.redis.exists(results_stream(cluster.settings, JOB))
    cluster.redis.delete(key)


def test_preliminary_rules_state_that_the_search_is_running(cluster):
    _, message = mine_message(cluster, final=False, stopped="running")
    message["segments"] = message["segments"][:1]

    cluster.app.send_task(names.RULES, kwargs=message, queue=names.RULES_QUEUE)

    ((fields),) = cluster.entries(1)
    document = json.loads(fields[BODY])
    assert (document["search"]["stopped"], document["search"]["trees"]) == ("running", 6)
    assert "The search is running" in document["notes"][-1]
    assert document["certificate"]["shuffles"] == 0


def test_a_subset_without_a_tree_is_named(cluster):
    failure = {"subset": [0, 3], "reason": "It hung."}
    _, message = mine_message(cluster, failures=[failure])

    cluster.app.send_task(names.RULES, kwargs=message, queue=names.RULES_QUEUE)

    ((fields),) = cluster.entries(1)
    named = ", ".join(cluster.columns.features[index].name for index in (0, 3))
    assert f"No tree could be grown on {named}: It hung." in json.loads(fields[BODY])["notes"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"segments": ["d" * 64]}, f"trees/{'d' * 64} is not in the artifact store"), ({"version": 9}, "version 9")],
)
def test_rules_that_cannot_be_mined_are_reported(cluster, changes, reason):
    _, message = mine_message(cluster, **changes)

    cluster.app.send_task(names.RULES, kwargs=message, queue=names.RULES_QUEUE)

    ((fields),) = cluster.entries(1)
    answer = json.loads(fields[RULES_HEADER])
    assert answer["kind"] == "unavailable"
    assert reason in answer["reason"]


def test_a_document_sent_as_a_task_reaches_the_schedulers_under_one_id_however_often_it_is_sent(cluster):
    intake = cluster.settings.key(names.INTAKE_STREAM)
    document = {"dataset": {"fingerprint": "a" * 64}}
    for _ in range(2):
        cluster.app.send_task(names.SUBMIT, kwargs=document, queue=names.JOBS_QUEUE, task_id="order 7")

    servers.wait_for(lambda: cluster.redis.xlen(intake) >= 2, what="both requests")
    requests = [Request.read(fields[HEADER]) for _, fields in cluster.redis.xrange(intake)]
    cluster.redis.delete(intake)

    assert requests[0] == requests[1]
    assert requests[0].document == document | {"id": requests[0].job}


def test_the_health_of_a_worker_is_checked(cluster):
    environment = os.environ | cluster.settings.environment()
    command = [sys.executable, "-m", "workers.health"]

    well = subprocess.run(command, cwd=servers.ROOT, env=environment, capture_output=True, text=True, check=False)
    gone = forked.run(command, env=environment | {"MAABO_REDIS": "redis://127.0.0.1:1/0"}, timeout=60)

    assert (well.returncode, "is healthy" in well.stderr) == (0, True)
    assert (gone.returncode, "cannot be asked" in gone.stderr) == (1, True)
