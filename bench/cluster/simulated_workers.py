"""Simulated workers, hundreds in one process. They take messages like Celery's workers, sleep for the time of the work,
and answer with trees that were grown before.

    python -m bench.cluster.simulated_workers WORKERS SECONDS_A_SUBSET SIZE
"""

import heapq
import json
import os
import sys
from base64 import b64decode
from functools import cache
from time import monotonic, sleep

from bench import tables
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.streams import BODY, HEADER, open_redis, results_stream
from maabo_dist.contract import names
from maabo_dist.contract.messages import EvaluationAnswer
from maabo_dist.trees.training import depth_search
from maabo_dist.trees.wire import pack_forest

BUSY = "bench:busy"
"""Redis key: milliseconds that simulated workers have worked."""


def main(workers: int, seconds: float, size: int) -> None:
    settings = ClusterSettings.from_environment(os.environ)
    client, queue = open_redis(settings), settings.key(names.EVALUATE_QUEUE)
    busy: list[tuple[float, int, EvaluationAnswer, float]] = []
    taken = 0
    while True:
        now = monotonic()
        if len(busy) < workers:
            for message in client.rpop(queue, workers - len(busy)) or ():
                answer, work = _answer(message, seconds)
                taken += 1
                heapq.heappush(busy, (now + work, taken, answer, work))
        if not _send_due(client, settings, busy, now, size):
            sleep(0.002)


def _send_due(client, settings, busy, now: float, size: int) -> bool:
    due = []
    while busy and busy[0][0] <= now:
        due.append(heapq.heappop(busy))
    if due:
        with client.pipeline(transaction=False) as pipe:
            for _, _, answer, work in due:
                fields = {HEADER: answer.model_dump_json(), BODY: _trees(answer.stop - answer.start, size)}
                pipe.xadd(results_stream(settings, answer.job), fields)
                pipe.incrby(BUSY, int(work * 1000))
            pipe.execute()
    return bool(due)


def _answer(message: bytes, seconds: float) -> tuple[EvaluationAnswer, float]:
    _, task, _ = json.loads(b64decode(json.loads(message)["body"]))
    key = {name: task[name] for name in ("job", "batch", "start", "stop", "attempt")}
    work = (task["stop"] - task["start"]) * seconds
    return EvaluationAnswer(kind="done", worker="simulated", seconds=work, **key), work


@cache
def _trees(count: int, size: int) -> bytes:
    """Any trees will do: the encoding of a tree does not contain its features."""
    columns = tables.generated(300, 40)
    return pack_forest(depth_search(tables.training(columns), tables.random_subsets(40, size, count), 5))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
