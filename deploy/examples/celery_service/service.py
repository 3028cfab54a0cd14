"""A service that submits a job through Celery and is called when the job has ended. It does not import maabo."""

import json
import os
import sys

from celery import Celery
from kombu.entity import Queue

REDIS, PREFIX = os.environ["MAABO_REDIS"], os.environ.get("MAABO_PREFIX", "")
BROKER = os.environ.get("MAABO_BROKER") or REDIS

# Separate lists for messages that its workers have taken, so that it needs no access to those of the cluster's workers.
OWN_LISTS = {
    "unacked_key": "billing-unacked",
    "unacked_index_key": "billing-unacked_index",
    "unacked_mutex_key": "billing-unacked_mutex",
}

app = Celery("billing", broker=BROKER, backend=REDIS)
app.conf.update(
    accept_content=["json"],
    task_queues=[Queue("billing")],
    task_default_queue="billing",
    task_create_missing_queues=True,
    broker_connection_retry_on_startup=True,
    broker_transport_options={"global_keyprefix": PREFIX, **OWN_LISTS} if BROKER == REDIS else {},
    # The cluster's workers get the same remote commands, and permission to send one is permission to stop them all.
    worker_enable_remote_control=False,
    result_backend_transport_options={"global_keyprefix": PREFIX},
)


@app.task(name="billing.rules_ready", ignore_result=True)  # type: ignore[untyped-decorator]  # Celery ships no types
def rules_ready(job: str, state: str, digest: str | None = None, problem: dict[str, object] | None = None) -> None:
    """Handle the end of a job, or the problem if its document was refused. It is called at least once."""
    content = {"job": job, "state": state, "digest": digest, "problem": problem}
    sys.stdout.write(f"called back: {json.dumps(content)}\n")
    sys.stdout.flush()


def queue_job(order: str, fingerprint: str, settings: dict[str, object]) -> str | dict[str, object]:
    """Submit a job; return its ID, or the problem with the document. The same order always returns the same job."""
    document = {
        "dataset": {"fingerprint": fingerprint, "name": "customers"},
        "settings": settings,
        "tenant": "billing",
        "callback": {"task": "billing.rules_ready", "queue": "billing"},
    }
    answer: str | dict[str, object] = app.send_task(
        "maabo.submit", kwargs=document, queue="maabo.jobs", task_id=order
    ).get(timeout=30)
    return answer


if __name__ == "__main__":
    sys.stdout.write(json.dumps(queue_job(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))) + "\n")
