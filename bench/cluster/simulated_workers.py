"""Simulated workers, thousands in one process. They take messages like Celery's workers, sleep for the time of the work,
and answer with trees that were grown before.

    python -m bench.cluster.simulated_workers WORKERS SECONDS_A_SUBSET SIZE LOG

LOG gets a line for each task: when it was begun and when it ended, in seconds of the system's monotonic clock.
"""

import heapq
import json
import os
import sys
from base64 import b64decode
from functools import cache
from pathlib import Path
from time import monotonic, sleep

from bench import tables
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.streams import BODY, HEADER, open_redis, results_stream
from maabo_dist.contract import names
from maabo_dist.contract.job import WorkerRecord
from maabo_dist.contract.messages import EvaluationAnswer
from maabo_dist.trees.forest import Forest
from maabo_dist.trees.training import depth_search
from maabo_dist.trees.wire import pack_forest

TREES = 64
"""Trees that are grown; longer answers repeat them."""
BEAT_SECONDS, EXPIRE_SECONDS = 2.0, 15
MAX_MESSAGES = 200
"""Messages taken at once, so that one process does not take those of another."""


def main(workers: int, seconds: float, size: int, log: Path) -> None:
    settings = ClusterSettings.from_environment(os.environ)
    client, queue = open_redis(settings), settings.key(names.EVALUATE_QUEUE)
    busy: list[tuple[float, int, EvaluationAnswer, float]] = []
    taken, next_beat = 0, 0.0
    with log.open("w", buffering=1) as lines:
        while True:
            now = monotonic()
            if now >= next_beat:
                _beat(client, settings, workers, len(busy))
                next_beat = now + BEAT_SECONDS
            for message in _take(client, queue, workers - len(busy)):
                answer, work = _answer(message, seconds)
                taken += 1
                heapq.heappush(busy, (now + work, taken, answer, now))
            if not _send_due(client, settings, busy, now, size, lines):
                sleep(0.005)


def _beat(client, settings, workers: int, busy: int) -> None:
    record = WorkerRecord(processes=workers, busy=busy).model_dump_json()
    client.set(settings.key(f"{names.WORKERS}:simulated-{os.getpid()}"), record, ex=EXPIRE_SECONDS)


def _take(client, queue: str, free: int) -> list[bytes]:
    return (client.rpop(queue, min(free, MAX_MESSAGES)) or []) if free else []


def _send_due(client, settings, busy, now: float, size: int, lines) -> bool:
    due = []
    while busy and busy[0][0] <= now:
        due.append(heapq.heappop(busy))
    if due:
        with client.pipeline(transaction=False) as pipe:
            for _, _, answer, _ in due:
                fields = {HEADER: answer.model_dump_json(), BODY: _trees(answer.stop - answer.start, size)}
                pipe.xadd(results_stream(settings, answer.job), fields)
            pipe.execute()
        lines.write("".join(f"{began:.4f} {end:.4f}\n" for end, _, _, began in due))
    return bool(due)


def _answer(message: bytes, seconds: float) -> tuple[EvaluationAnswer, float]:
    _, task, _ = json.loads(b64decode(json.loads(message)["body"]))
    key = {name: task[name] for name in ("job", "batch", "start", "stop", "attempt")}
    work = (task["stop"] - task["start"]) * seconds
    return EvaluationAnswer(kind="done", worker="simulated", seconds=work, **key), work


@cache
def _trees(count: int, size: int) -> bytes:
    """Any trees will do: the encoding of a tree does not contain its features."""
    whole, part = divmod(count, TREES)
    return pack_forest(Forest.concatenate([_forest(TREES, size)] * whole + [_forest(part, size)] * (part > 0)))


@cache
def _forest(count: int, size: int) -> Forest:
    columns = tables.generated(300, 40)
    return depth_search(tables.training(columns), tables.random_subsets(40, size, count), 5)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
