"""The Celery application of the workers: `celery -A workers.app worker -Q maabo.evaluate,maabo.rules,maabo.jobs`."""

import os
from pathlib import Path
from typing import Any

from celery import Celery, signals

from maabo_dist.cluster.celery_app import make_celery
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.tables import TableCache
from maabo_dist.contract import names
from maabo_dist.store import FileStore
from maabo_dist.warm import warm
from workers.evaluate import EvaluateTask


def make_app(settings: ClusterSettings) -> Celery:
    """The application with its tasks."""
    application = make_celery(settings)
    cache = TableCache(Path(settings.cache_dir), FileStore(settings.store_url), settings.cache_bytes)
    application.register_task(EvaluateTask(settings, cache))
    return application


def _compile_kernels(**_: Any) -> None:
    """Before the first task, and before worker processes are forked: they all find the machine code loaded."""
    warm()


def _report_loss(sender: Any = None, exception: BaseException | None = None, kwargs: Any = None, **_: Any) -> None:
    """A task whose process was killed or ran out of time is reported by the main process, at once."""
    if getattr(sender, "name", None) == names.EVALUATE:
        sender.report_loss(kwargs or {}, repr(exception))


signals.worker_init.connect(_compile_kernels, weak=False)
signals.task_failure.connect(_report_loss, weak=False)
app = make_app(ClusterSettings.from_environment(os.environ))
