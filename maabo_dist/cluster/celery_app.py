"""The Celery application's configuration, the same for whoever sends tasks and whoever runs them.

The broker is a hint: over Redis, a message is lost when the worker that popped it dies before it is noted as
unacknowledged. The scheduler owns delivery; what is set here and in `broker` only keeps losses rare and recovery quick.
"""

from typing import Any

from celery import Celery
from kombu.entity import Queue

from maabo_dist.cluster.broker import celery_options
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.contract import names

HARD_LIMIT = 1.25
"""A task that does not heed its time limit is ended after this many times as long."""


def make_celery(settings: ClusterSettings, **more: Any) -> Celery:
    """A configured application without tasks."""
    app = Celery("maabo", set_as_current=False)
    app.conf.update(
        # JSON alone is accepted: nothing from the wire is ever unpickled.
        accept_content=["json"],
        task_serializer="json",
        result_serializer="json",
        # Answers travel on a stream of ours. A result backend would block publishers in an outage.
        result_backend=None,
        task_ignore_result=True,
        task_queues=[Queue(names.EVALUATE_QUEUE), Queue(names.RULES_QUEUE), Queue(names.JOBS_QUEUE)],
        task_default_queue=names.EVALUATE_QUEUE,
        task_create_missing_queues=False,
        # Acknowledged when done; but a task whose process died is not requeued: a poison task would loop for ever.
        task_acks_late=True,
        task_reject_on_worker_lost=False,
        worker_prefetch_multiplier=1,
        # True kills every worker when Redis restarts. RabbitMQ hands out again at once what a lost connection had
        # taken: what runs is answered first, and its twin's answer is dropped.
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        task_soft_time_limit=settings.task_limit,
        task_time_limit=settings.task_limit * HARD_LIMIT,
        worker_max_memory_per_child=settings.worker_memory >> 10,
        worker_max_tasks_per_child=5000,
        task_send_sent_event=False,
        worker_send_task_events=True,
        worker_hijack_root_logger=False,
        **celery_options(settings),
        **more,
    )
    return app
