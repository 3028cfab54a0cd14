"""The client with an in-memory Redis. Time passes, and the scheduler runs, only while the client sleeps."""

import json
import socket
from dataclasses import dataclass, field
from uuid import uuid4

import fakeredis
import numpy as np
import pytest
import redis

from maabo_dist.cluster.queue_client import NoSuchJobError, QueueClient, UnansweredError, UnreachableError
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.store import FileStore
from maabo_dist.contract import names
from maabo_dist.contract.job import JobSpec, JobState
from maabo_dist.errors import FormatError, InputError
from tests.cluster_client.fake_scheduler import FakeScheduler
from tests.documents import document_json
from tests.factories import make_columns

COLUMNS = make_columns(np.random.default_rng(1))
JOB = "7f3a" + "0" * 28
OTHER = "7f3a" + "1" * 28
SETTINGS = ClusterSettings(prefix="test.", redis_url="redis://:secret@here:6379/0")
NAME = f"columns/{COLUMNS.fingerprint}"


@dataclass
class World:
    """A cluster, its client and their common clock."""

    settings: ClusterSettings = SETTINGS
    redis: object = field(default_factory=lambda: fakeredis.FakeRedis(server=fakeredis.FakeServer()))
    scheduler: FakeScheduler | None = None
    now: float = 0.0
    notes: list = field(default_factory=list)
    on_sleep: list = field(default_factory=list)
    """What happens during the next sleeps, one of them each."""

    def client(self):
        return QueueClient(self.settings, self.redis, note=self.notes.append, clock=lambda: self.now, sleep=self.sleep)

    def sleep(self, seconds):
        self.now += seconds
        if self.scheduler is not None:
            self.scheduler.turn()
        if self.on_sleep:
            self.on_sleep.pop(0)()

    def waiting(self):
        return self.redis.xlen(self.settings.key(names.INTAKE_STREAM))


def a_world(with_scheduler=True, **scheduler):
    world = World()
    if with_scheduler:
        world.scheduler = FakeScheduler(world.settings, world.redis, **scheduler)
        world.scheduler.turn()
    return world


def a_spec():
    return JobSpec(id=uuid4().hex, dataset={"fingerprint": COLUMNS.fingerprint, "name": "wine"})


def test_a_submitted_job_has_a_record_and_its_table_is_in_redis():
    world, spec = a_world(), a_spec()

    record = world.client().submit(spec, COLUMNS)

    assert (record.id, record.state, record.name) == (spec.id, JobState.QUEUED, "wine")
    assert world.redis.exists(f"test.maabo:artifact:{NAME}")
    assert world.notes == []


def test_a_table_that_is_stored_is_not_sent_again():
    world = a_world()
    world.client().submit(a_spec(), COLUMNS)
    keys, before = set(world.redis.keys("*artifact*")), [world.redis.get(key) for key in world.redis.keys("*:0")]

    world.client().submit(a_spec(), COLUMNS)

    assert world.notes == ["the table is already stored."]
    assert set(world.redis.keys("*artifact*")) == keys
    assert [world.redis.get(key) for key in world.redis.keys("*:0")] == before


def test_a_directory_is_used_as_the_store_on_its_own_machine(tmp_path):
    world = a_world(store=f"file://{tmp_path}", host=socket.gethostname())

    for _ in range(2):
        world.client().submit(a_spec(), COLUMNS)

    assert FileStore(f"file://{tmp_path}").has(NAME)
    assert world.redis.keys("*artifact*") == []
    assert world.notes == ["the table is already stored."]


def test_a_directory_of_another_machine_is_not_used(tmp_path):
    world = a_world(store=f"file://{tmp_path}", host="elsewhere")

    world.client().submit(a_spec(), COLUMNS)

    assert list(tmp_path.iterdir()) == []
    assert world.redis.keys("*artifact*")


def test_a_store_that_cannot_be_written_is_skipped(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    world = a_world(store=f"file://{tmp_path}/file/store", host=socket.gethostname())

    world.client().submit(a_spec(), COLUMNS)

    assert world.redis.keys("*artifact*")
    assert world.notes[0].endswith("The table is sent through Redis instead.")


def test_missing_permission_to_write_is_not_reported(tmp_path, monkeypatch):
    def forbidden(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("maabo_dist.cluster.store.FileStore._put_in_directory", forbidden)
    world = a_world(store=f"file://{tmp_path}", host=socket.gethostname())

    world.client().submit(a_spec(), COLUMNS)

    assert world.redis.keys("*artifact*")
    assert world.notes == []


def test_a_store_given_by_the_user_takes_precedence(tmp_path):
    world = a_world(store="file:///nowhere", host=socket.gethostname())
    world.settings = world.settings.model_copy(update={"store_url": f"file://{tmp_path}"})

    world.client().submit(a_spec(), COLUMNS)

    assert FileStore(f"file://{tmp_path}").has(NAME)
    assert world.redis.keys("*artifact*") == []


def test_a_request_that_was_lost_is_sent_again():
    world = a_world()
    world.scheduler.to_drop = 1

    record = world.client().submit(a_spec(), COLUMNS)

    assert record.state is JobState.QUEUED


def test_a_rejected_job_is_returned_as_failed_with_the_reason():
    world, spec = a_world(), a_spec()
    refused = JobSpec.model_construct(**dict(spec) | {"tenant": ""})

    record = world.client().submit(refused, COLUMNS)

    assert record.state is JobState.FAILED
    assert "tenant" in record.reason


def test_without_a_scheduler_the_request_stays_queued_and_an_error_is_raised():
    world, spec = a_world(with_scheduler=False), a_spec()

    with pytest.raises(UnansweredError, match=r"No scheduler is running.* is queued at") as raised:
        world.client().submit(spec, COLUMNS)

    assert world.waiting() == 1
    assert spec.id in str(raised.value)


def test_a_scheduler_that_does_not_answer_is_asked_three_times():
    world = a_world()
    world.scheduler.to_drop = 9

    with pytest.raises(UnansweredError, match="did not respond"):
        world.client().submit(a_spec(), COLUMNS)

    assert world.scheduler.to_drop == 6


@pytest.mark.parametrize(
    ("before", "command", "after"),
    [
        (JobState.RUNNING, "pause", JobState.PAUSED),
        (JobState.PAUSED, "resume", JobState.RUNNING),
        (JobState.PAUSED, "pause", JobState.PAUSED),
        (JobState.QUEUED, "cancel", JobState.CANCELLED),
    ],
)
def test_a_command_succeeds_when_the_record_shows_it(before, command, after):
    world = a_world()
    world.scheduler.add(JOB, before)

    assert world.client().send_command(JOB, command).state is after


def test_commands_for_a_job_that_has_ended_are_rejected():
    world = a_world()
    world.scheduler.add(JOB, JobState.DONE)

    with pytest.raises(InputError, match=r"^Job 7f3a0000 is done; it cannot be paused\.$"):
        world.client().send_command(JOB, "pause")

    assert world.waiting() == 0


def test_a_job_that_ends_before_a_command_is_returned_as_it_ended():
    world = a_world()
    world.scheduler.add(JOB, JobState.MINING)
    world.scheduler.to_drop = 1
    world.on_sleep = [lambda: world.scheduler.change(world.scheduler.records[JOB], state=JobState.DONE)]

    assert world.client().send_command(JOB, "cancel").state is JobState.DONE


def test_a_command_without_effect_is_reported():
    world = a_world()
    world.scheduler.add(JOB, JobState.RUNNING)
    world.redis.delete(world.settings.key(names.CLUSTER))
    world.scheduler = None

    with pytest.raises(UnansweredError, match=r"No scheduler is running. Job 7f3a0000 is not paused yet"):
        world.client().send_command(JOB, "pause")

    assert world.waiting() == 1


def test_a_record_that_redis_lost_is_requested():
    world = a_world()
    world.scheduler.add(JOB)
    world.scheduler.forget_redis()

    assert world.client().record(JOB).id == JOB
    assert world.scheduler.requests == ["look"]


def test_an_unknown_job_is_reported_after_the_schedulers_were_asked():
    world = a_world()

    with pytest.raises(NoSuchJobError, match=r"no job 7f3a0000 at redis://here:6379/0\.$"):
        world.client().record(JOB)

    assert world.scheduler.requests == ["look"]
    assert world.now < 6


def test_an_unknown_job_without_a_scheduler_may_still_exist():
    with pytest.raises(NoSuchJobError, match="No scheduler is running that could look it up"):
        a_world(with_scheduler=False).client().record(JOB)


@pytest.mark.parametrize("prefix", [JOB, JOB[:8], "7f3a00", "7F3A0", f" {JOB} "])
def test_a_job_is_found_by_its_id_or_its_first_digits(prefix):
    world = a_world()
    world.scheduler.add(JOB)
    world.scheduler.add(OTHER)

    assert world.client().find(prefix).id == JOB


@pytest.mark.parametrize(
    ("prefix", "words"),
    [
        ("7f3a", "matches 2 jobs"),
        ("aaaa", "There is no job aaaa"),
        ("7f3", "'7f3' is not a job id"),
        ("7f3*", "is not a job id"),
        ("job-1", "is not a job id"),
        (JOB + "0", "is not a job id"),
        ("", "is not a job id"),
    ],
)
def test_a_prefix_that_does_not_name_one_job_is_rejected(prefix, words):
    world = a_world()
    world.scheduler.add(JOB)
    world.scheduler.add(OTHER)

    with pytest.raises(NoSuchJobError, match=words.replace("*", r"\*")):
        world.client().find(prefix)


def test_jobs_are_listed_newest_first_without_expired_records():
    world = a_world()
    for number in range(3):
        world.scheduler.add(f"{number:032x}")
    world.redis.delete(world.settings.key(f"{names.JOB_RECORD}:{1:032x}"))

    assert [int(record.id, 16) for record in world.client().jobs()] == [2, 0]


def test_an_invalid_record_is_reported_by_field():
    world = a_world()
    world.redis.set(world.settings.key(f"{names.JOB_RECORD}:{JOB}"), json.dumps({"id": JOB, "state": "dreaming"}))

    with pytest.raises(FormatError, match="A JobRecord is invalid: state"):
        world.client().record(JOB)


def test_a_job_is_followed_through_its_changes_to_its_end():
    world = a_world()
    world.scheduler.add(JOB)
    steps = [{"state": JobState.RUNNING}, {"trees": 10}, {}, {"trees": 20}, {"state": JobState.DONE}]
    world.on_sleep = [lambda step=step: world.scheduler.change(world.scheduler.records[JOB], **step) for step in steps]

    progress = [(record.state.value, record.trees) for record in world.client().follow(JOB)]

    assert progress == [("queued", 0), ("running", 0), ("running", 10), ("running", 20), ("done", 20)]


def test_following_a_job_says_that_nobody_updates_it_any_more():
    world = a_world()
    world.scheduler.add(JOB, JobState.RUNNING, trees=10)
    follow = world.client().follow(JOB)
    next(follow)
    world.redis.delete(world.settings.key(names.CLUSTER))  # it has expired
    world.scheduler.turn = lambda: None

    record = next(follow)

    assert (record.trees, record.obstacle.kind) == (10, "scheduler")
    assert 10 < world.now < 20


def test_following_a_job_says_that_redis_refuses_writes():
    world = a_world()
    world.scheduler.add(JOB, JobState.RUNNING)
    follow = world.client().follow(JOB)
    next(follow)
    world.redis.delete(world.settings.key(names.CLUSTER))
    world.scheduler.turn = lambda: None

    def refuse(*_, **__):
        raise redis.exceptions.OutOfMemoryError("command not allowed when used memory > 'maxmemory'.")

    world.redis.set = refuse

    assert "its memory limit (maxmemory) is reached" in next(follow).obstacle.text


class Flaky:
    """A Redis client that fails while `down`."""

    def __init__(self, inner, error):
        self.inner, self.error, self.down = inner, error, True

    def __getattr__(self, name):
        if self.down:
            raise self.error
        return getattr(self.inner, name)


def test_following_a_job_survives_a_short_outage():
    world = a_world()
    world.scheduler.add(JOB)
    real = world.redis
    world.redis = Flaky(real, redis.ConnectionError("gone"))
    world.redis.down = False
    client = world.client()
    follow = client.follow(JOB)
    next(follow)

    world.redis.down = True
    world.scheduler.change(world.scheduler.records[JOB], state=JobState.DONE)
    world.on_sleep = [lambda: None] * 20 + [lambda: setattr(world.redis, "down", False)]

    assert next(follow).state is JobState.DONE


def test_following_a_job_fails_in_a_long_outage():
    world = a_world()
    world.scheduler.add(JOB)
    world.redis = Flaky(world.redis, redis.ConnectionError("gone"))
    world.redis.down = False
    follow = world.client().follow(JOB)
    next(follow)

    world.redis.down = True
    with pytest.raises(UnreachableError):
        next(follow)

    assert 60 < world.now < 70


def test_the_client_waits_for_the_final_rules():
    world = a_world()
    partial, final = (document_json(search={"stopped": stopped}) for stopped in ("running", "budget"))
    world.scheduler.add(JOB, JobState.DONE)
    world.scheduler.change(world.scheduler.records[JOB], json.dumps(partial))
    world.on_sleep = [lambda: world.scheduler.change(world.scheduler.records[JOB], json.dumps(final))]

    client = world.client()

    assert client.document(JOB).to_json() == partial
    assert client.final_document(JOB).to_json() == final


def test_final_rules_that_redis_lost_are_requested():
    world = a_world()
    world.scheduler.add(JOB, JobState.DONE)
    world.scheduler.change(world.scheduler.records[JOB], json.dumps(document_json()))
    world.scheduler.forget_redis()

    assert world.client().document(JOB) is None
    assert world.client().final_document(JOB)


def test_missing_final_rules_are_reported():
    world = a_world()
    world.scheduler.add(JOB, JobState.DONE)

    with pytest.raises(UnansweredError, match="Job 7f3a0000 is done, but redis://here:6379/0 lacks its rules"):
        world.client().final_document(JOB)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (redis.ConnectionError("Error 111 connecting to here:6379. Connection refused."), "cannot be reached"),
        (redis.AuthenticationError("invalid username-password pair"), "rejects the password or user"),
        (redis.TimeoutError("Timeout reading from socket"), "did not answer in time"),
        (redis.ResponseError("OOM command not allowed"), "rejected a command"),
    ],
)
def test_redis_errors_name_the_address_and_the_remedy(error, words):
    world = a_world(with_scheduler=False)
    world.redis = Flaky(world.redis, error)

    with pytest.raises(UnreachableError) as raised:
        world.client().jobs()

    assert str(raised.value).startswith(f"Redis at redis://here:6379/0 {words} ({str(error).rstrip('.')}). ")
    assert "secret" not in str(raised.value)
