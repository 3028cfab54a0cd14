"""Simulated workers in the process of the scheduler that they work for, and a clock for both.

    SimulatedClock    advances by the CPU time that the scheduler uses, and jumps to the next event when it waits
    SimulatedWorkers  take messages from the queue, are busy for the time of the work, and answer with trees that were
                      grown before

So the figures do not depend on what else the machine does: the scheduler appears to have a core of its own, and the
workers cost it nothing. Redis and the ledger are real; the time that the scheduler waits for them is an assumption.
"""

import heapq
import json
from base64 import b64decode
from contextlib import contextmanager
from functools import cache
from time import process_time, time

import numpy as np

from bench import tables
from maabo_dist.cluster.streams import answer_entry, results_stream
from maabo_dist.contract import names
from maabo_dist.contract.job import WorkerRecord
from maabo_dist.contract.messages import EvaluationAnswer
from maabo_dist.trees.forest import Forest
from maabo_dist.trees.training import depth_search
from maabo_dist.trees.wire import pack_forest

TREES = 64
"""Trees that are grown; longer answers repeat them."""
WAIT_SECONDS = 0.01
"""The time that one turn of the scheduler is assumed to wait for Redis and the disk."""
EXPIRE_SECONDS = 3600


class SimulatedClock:
    """The time of the simulation."""

    def __init__(self) -> None:
        self.now = time()
        self.cpu = 0.0

    def __call__(self) -> float:
        return self.now

    @contextmanager
    def count_cpu(self):
        """Advance by the CPU time of what is done meanwhile, and by the assumed time of its waits."""
        start = process_time()
        yield
        spent = process_time() - start
        self.cpu += spent
        self.now += spent + WAIT_SECONDS


class SimulatedWorkers:
    """A fleet of workers that take `seconds` for a subset of `size` features."""

    def __init__(self, resources, count: int, seconds: float, size: int) -> None:
        self._resources, self._count, self._seconds, self._size = resources, count, seconds, size
        self._queue = resources.settings.key(names.EVALUATE_QUEUE)
        self._busy: list[tuple[float, int, list[EvaluationAnswer]]] = []
        self.began: list[float] = []
        self.ended: list[float] = []
        self._free = count

    def beat(self) -> None:
        record = WorkerRecord(processes=self._count, busy=len(self._busy)).model_dump_json()
        key = self._resources.settings.key(f"{names.WORKERS}:simulated")
        self._resources.redis.set(key, record, ex=EXPIRE_SECONDS)

    def work(self, now: float) -> bool:
        """Answer what is done by now, and take new tasks. True if there was an answer."""
        redis, settings = self._resources.redis, self._resources.settings
        free = self._free
        with redis.pipeline(transaction=False) as pipe:
            while self._busy and self._busy[0][0] <= now:
                _, _, answers = heapq.heappop(self._busy)
                self._free += 1
                for answer in answers:
                    trees = _trees(answer.stop - answer.start, self._size)
                    pipe.xadd(results_stream(settings, answer.job), answer_entry(answer, trees))
            pipe.execute()
        answered = self._free > free
        for message in (redis.rpop(self._queue, self._free) or []) if self._free else []:
            self._begin(message, now)
        return answered

    def _begin(self, message: bytes, now: float) -> None:
        envelope = json.loads(message)
        if (kind := envelope["headers"]["task"]) != names.EVALUATE:
            raise ValueError(
                f"Simulated workers only evaluate subsets, and were sent {kind}: change the job's settings."
            )
        _, task, _ = json.loads(b64decode(envelope["body"]))
        self._free -= 1
        answers = [self._answer(task | part, number) for number, part in enumerate([{}, *task.get("more", [])])]
        work = sum(answer.seconds for answer in answers)
        self.began.append(now)
        self.ended.append(now + work)
        heapq.heappush(self._busy, (now + work, len(self.began), answers))

    def _answer(self, part: dict, number: int) -> EvaluationAnswer:
        key = {name: part[name] for name in ("job", "batch", "start", "stop", "attempt")}
        seconds = (part["stop"] - part["start"]) * self._seconds
        return EvaluationAnswer(kind="done", worker="simulated", seconds=seconds, part=number, **key)

    @property
    def next_end(self) -> float | None:
        """When the next task ends."""
        return self._busy[0][0] if self._busy else None

    def share_busy(self, start: float, stop: float) -> float:
        """The share of the workers that was busy in this time, on average."""
        spent = np.clip(self.ended, start, stop) - np.clip(self.began, start, stop)
        return float(spent.sum() / (stop - start) / self._count)


@cache
def _trees(count: int, size: int) -> bytes:
    """Any trees will do: the encoding of a tree does not contain its features."""
    whole, part = divmod(count, TREES)
    return pack_forest(Forest.concatenate([_forest(TREES, size)] * whole + [_forest(part, size)] * (part > 0)))


@cache
def _forest(count: int, size: int) -> Forest:
    columns = tables.generated(300, 40)
    return depth_search(tables.training(columns), tables.random_subsets(40, size, count), 5)
