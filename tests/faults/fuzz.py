"""`Fuzz` sends mutated messages, requests, answers and control messages to the processes of a cluster.

Half of the answers have the checksum of what they were before the mutation. The others have none, like those of workers
of release 0.1.0. Of these, and of requests, mutations that are valid again are not sent: they would be forged, and not
malformed.
"""

import base64
import json
from contextlib import suppress
from random import Random
from uuid import UUID

import numpy as np

from maabo_dist.cluster.streams import (
    BODY,
    CHECKSUM,
    COUNT_HEADER,
    HEADER,
    RULES_HEADER,
    SCREEN_HEADER,
    SHUFFLE_HEADER,
    answer_entry,
)
from maabo_dist.contract import names
from maabo_dist.contract.messages import (
    MAX_SUBSETS,
    CountAnswer,
    EvaluatePart,
    EvaluationAnswer,
    Request,
    RulesAnswer,
    ScreenAnswer,
    ShuffleAnswer,
)
from maabo_dist.errors import FormatError
from maabo_dist.trees.wire import unpack_forest
from scheduler.core.handlers import read_answer
from tests import servers
from tests.faults.mutations import mutate_bytes, mutate_json
from tests.faults.test_bad_messages import evaluate
from tests.faults.test_poison_messages import envelope
from tests.faults.world import MINING

QUEUES = (names.JOBS_QUEUE, names.EVALUATE_QUEUE, names.RULES_QUEUE)
ANSWERS = {
    HEADER: EvaluationAnswer,
    RULES_HEADER: RulesAnswer,
    SCREEN_HEADER: ScreenAnswer,
    SHUFFLE_HEADER: ShuffleAnswer,
    COUNT_HEADER: CountAnswer,
}


def part_of(message):
    """A further part of an evaluation, like this message."""
    return {name: message[name] for name in EvaluatePart.model_fields}


def is_valid(entry):
    """True if a search that awaits an answer could accept this one, which has no checksum."""
    try:
        answer, body = read_answer(entry)
        if isinstance(answer, EvaluationAnswer):
            count = min(max(0, answer.stop - answer.start), MAX_SUBSETS)
            unpack_forest(body, np.zeros((count, MINING["subset_size"]), np.int32))
    except FormatError:
        return False
    return isinstance(answer, EvaluationAnswer | RulesAnswer)


class Fuzz:
    """Sends mutations to the processes of a cluster."""

    def __init__(self, world, seed):
        self.world, self.random = world, Random(seed)
        self.sent = 0

    def run(self, rounds):
        """Send about four mutations each round, while a job runs."""
        job = self.world.submit(MINING)
        answers = self._real_answers(job)
        for number in range(rounds):
            if self.world.row(job).state.ended:
                self.world.check_done(job)
                job = self.world.submit(MINING)
                servers.wait_for(lambda job=job: self.world.row(job), 20, what="the next job")
            self.send_message()
            self.send_request()
            self.send_answer(job, answers)
            if number % 5 == 0:
                self.send_control()
            self._check_alive()
            if number % 50 == 0:  # workers rest for a second after each task that they could not begin
                servers.wait_for(self.drained, 120, what="empty queues")
        self.world.check_done(job, seconds=90)

    def drained(self):
        key = self.world.settings.key
        lengths = [self.world.client.llen(key(queue)) for queue in QUEUES]
        return not any(lengths) and self.world.client.xlen(key(names.INTAKE_STREAM)) == 0

    def _check_alive(self):
        for process in (self.world.first_scheduler, self.world.first_worker):
            assert process.alive, process.log[-3000:]

    def _new_id(self):
        return UUID(int=self.random.getrandbits(128)).hex

    def send_message(self):
        """A message of a job that does not exist, mutated as an envelope, in its body, or as bytes."""
        queue, document = self.random.choice(QUEUES), {"dataset": {"fingerprint": "0" * 64}}
        task, keywords = self.random.choice(
            [
                (names.SUBMIT, document),
                (names.EVALUATE, evaluate(self._new_id())),
                (names.EVALUATE, evaluate(self._new_id(), more=[part_of(evaluate(self._new_id()))])),
                (names.SCREEN, {"job": self._new_id(), "number": 1, "blocks": 1, "start": 0, "stop": 1, "attempt": 0}),
                (names.SHUFFLE, {"spec": document | {"id": self._new_id()}, "start": 0, "stop": 1, "attempt": 0}),
                (names.COUNT, {"spec": document | {"id": self._new_id()}, "number": 1, "start": 0, "stop": 1}),
                (names.RULES, {"spec": document | {"id": self._new_id()}, "attempt": 1, "final": True}),
            ]
        )
        item = json.loads(envelope([[], keywords, {}], queue=queue, headers={"task": task}))
        match self.random.randrange(9):
            case 0:  # few: a worker that cannot begin a task rests for a second
                body = json.dumps(mutate_json(self.random, [[], keywords, {}])).encode()
                item["body"] = base64.b64encode(body).decode()
            case 1 | 2:
                item["body"] = base64.b64encode(mutate_bytes(self.random, base64.b64decode(item["body"]))).decode()
            case 3 | 4 | 5:
                item["headers"] = mutate_json(self.random, item["headers"])
            case 6 | 7:
                item["properties"] = mutate_json(self.random, item["properties"])
            case 8:
                item = mutate_json(self.random, item)
        data = json.dumps(item).encode()
        self.world.client.lpush(
            self.world.settings.key(queue), mutate_bytes(self.random, data) if self.random.random() < 0.2 else data
        )
        self.sent += 1

    def send_request(self):
        job = self._new_id()
        document = {"id": job, "dataset": {"fingerprint": "0" * 64}, "settings": {"trees": 5}, "callback": None}
        request = {"version": 2, "kind": "submit", "job": job, "document": document}
        data = json.dumps(mutate_json(self.random, request)).encode()
        if self.random.random() < 0.4:
            data = mutate_bytes(self.random, data)
        with suppress(FormatError):
            Request.read(data)
            return
        fields = {self.random.choice([HEADER, HEADER, HEADER, b"other"]): data}
        self.world.client.xadd(self.world.settings.key(names.INTAKE_STREAM), fields)
        self.sent += 1

    def send_answer(self, job, answers):
        """A mutated header with a real body, or a real header with a mutated body; or a header with random bytes."""
        field = self.random.choice(list(ANSWERS))
        header, body = answers[field]
        values = header | {"job": job}
        if field == HEADER and (tasks := self.world.ledger.search.tasks(job)):  # one that is perhaps still awaited
            task = self.random.choice(tasks)
            values |= {"batch": task.batch, "start": task.start, "stop": task.stop, "attempt": task.attempt}
        entry = answer_entry(ANSWERS[field].read(values), body)
        mutated = dict(entry)
        if self.random.random() < 0.5:
            mutated[field] = json.dumps(mutate_json(self.random, values)).encode()
        else:
            mutated[BODY] = mutate_bytes(self.random, body) if body else self.random.randbytes(200)
        if mutated == entry:  # the trees of another task
            return
        if self.random.random() < 0.5:
            del mutated[CHECKSUM]
            if is_valid(mutated):
                return
        self.world.client.xadd(self.world.stream(job), mutated)
        self.sent += 1

    def send_control(self):
        message = {"method": "ping", "arguments": {}, "destination": None, "pattern": None, "matcher": None}
        item = json.loads(envelope(queue="celery.pidbox"))
        item["body"] = base64.b64encode(json.dumps(mutate_json(self.random, message)).encode()).decode()
        if self.random.random() < 0.5:
            item = mutate_json(self.random, item)
        data = json.dumps(item).encode()
        self.world.client.publish(self.world.settings.key("/0.celery.pidbox"), data)
        self.sent += 1

    def _real_answers(self, job):
        """Headers and bodies of each kind; the trees are those of an answer in the ledger."""
        self.world.under_way(job, 1)
        row = next(self.world.ledger.search.results(job))
        rules = {"version": 2, "kind": "done", "job": job, "attempt": 0, "worker": "here:1", "seconds": 0.1}
        block = rules | {"start": row.start, "stop": row.stop}
        return {
            HEADER: (block | {"batch": row.batch}, row.trees),
            RULES_HEADER: (rules | {"final": True, "trees": 1, "rules": 1, "digest": "0"}, b'{"rules": []}'),
            SCREEN_HEADER: (block, b""),
            SHUFFLE_HEADER: (block, b""),
            COUNT_HEADER: (block | {"number": 1}, b""),
        }
