"""The Celery application of the workers: `celery -A workers.app worker`."""

import logging
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

from celery import Celery, signals
from celery.app.backends import by_url

from maabo_dist.cluster.broker import CONSUMER_TIMEOUT, HARD_LIMIT_FACTOR, check_broker, make_celery, uses_amqp
from maabo_dist.cluster.logs import AppendingFormatter, StructuredLogger, log_handler
from maabo_dist.cluster.redis_store import open_store
from maabo_dist.cluster.settings import ClusterSettings, check_redis, require_certificate
from maabo_dist.cluster.streams import open_redis
from maabo_dist.cluster.table_cache import TableCache
from maabo_dist.cluster.tracing import Tracing
from maabo_dist.contract import names
from maabo_dist.errors import MaaboError
from maabo_dist.warm import warm
from workers.base import ClusterTask, log_fields
from workers.celery_hooks import Heartbeat, apply_workarounds
from workers.guard import guard_messages
from workers.passes import CountTask
from workers.tasks import EvaluateTask, RulesTask, ScreenTask, ShuffleTask, SubmitTask

logger = StructuredLogger("maabo.worker")

# How long results of `maabo.submit` are kept.
RESULT_SECONDS = 86400


def make_app(
    settings: ClusterSettings,
    evaluate: type[EvaluateTask] = EvaluateTask,
    screen: type[ScreenTask] = ScreenTask,
    shuffle: type[ShuffleTask] = ShuffleTask,
    count: type[CountTask] = CountTask,
    tracing: Tracing | None = None,
) -> Celery:
    """Return the application with its tasks."""
    application = make_celery(settings)
    cache = TableCache(Path(settings.cache_dir), open_store(settings, open_redis(settings)), settings.cache_bytes)
    tracing = tracing or Tracing()
    for task in (evaluate, screen, shuffle, count, RulesTask, SubmitTask):
        application.register_task(task(settings, cache, tracing))
    for shutdown in (signals.worker_process_shutdown, signals.worker_shutdown):
        shutdown.connect(lambda **_: tracing.close(), weak=False)
    _set_result_backend(application, settings)
    guard_messages(application, settings)
    signals.worker_init.connect(lambda **_: _check_access(settings, application), weak=False)
    signals.after_setup_logger.connect(_log_json if settings.log == "json" else _log_fields, weak=False)
    return application


def _set_result_backend(application: Celery, settings: ClusterSettings) -> None:
    """The sender of `maabo.submit` can ask for its result; no other task has one."""
    options = {"global_keyprefix": settings.prefix, "retry_policy": {"max_retries": 3, "interval_max": 0.5}}
    application.conf.update(result_backend_transport_options=options, result_expires=RESULT_SECONDS)
    backend, url = by_url(require_certificate(settings.celery_url), application.loader)
    application.tasks[names.SUBMIT].backend = backend(app=application, url=url)


def _log_json(logger: logging.Logger, **_: Any) -> None:
    logger.handlers[:] = [log_handler("json", sys.stderr)]


def _log_fields(logger: logging.Logger, **_: Any) -> None:
    """Show the fields of our messages in the lines that Celery formats."""
    for handler in logger.handlers:
        if handler.formatter is not None and not isinstance(handler.formatter, AppendingFormatter):
            handler.setFormatter(AppendingFormatter(handler.formatter))


def _check_access(settings: ClusterSettings, application: Celery) -> None:
    """End a worker whose credentials are refused; Celery would retry forever."""
    try:
        with open_redis(settings) as client:
            check_redis(settings.redis_url, client.ping)
        check_broker(settings, application)
    except MaaboError as error:
        _exit(error)
    longest = settings.task_limit * HARD_LIMIT_FACTOR
    if uses_amqp(settings) and longest > CONSUMER_TIMEOUT:
        logger.warning(
            "tasks may run longer than RabbitMQ waits by default; raise its consumer_timeout", seconds=longest
        )


def _exit(error: MaaboError) -> NoReturn:
    sys.stderr.write(f"worker: {error}\n")
    sys.exit(2)


def _report_loss(sender: Any = None, exception: BaseException | None = None, kwargs: Any = None, **_: Any) -> None:
    """Report a task whose process was killed or ran out of time, from the main process, immediately."""
    if isinstance(sender, ClusterTask):
        message = kwargs or {}
        logger.warning("task lost", task=sender.name, **log_fields(message), reason=repr(exception))
        sender.report_loss(message, repr(exception))


apply_workarounds()
# Kernels are compiled before worker processes are forked, so that they share the machine code.
signals.worker_init.connect(lambda **_: warm(), weak=False)
signals.task_failure.connect(_report_loss, weak=False)
try:
    _settings = ClusterSettings.from_environment(os.environ)
    app = make_app(_settings, tracing=Tracing.from_environment(os.environ, "maabo-worker"))
    Heartbeat(_settings).connect_signals()
except MaaboError as error:
    _exit(error)
