"""Flower's configuration file, which Flower executes: every name in here that is an option of its sets that option."""

import os
from typing import Any

from flower.views.monitor import Metrics  # type: ignore[import-untyped]
from tornado.web import authenticated

from maabo_dist.cluster.address import read_secret

persistent = False
max_tasks = 10_000
# Looking, not touching: the scheduler owns delivery, so a task revoked or sent from here would only be sent again.
read_only = True
tasks_columns = "name,args,result,state,received,runtime,worker"
# From variables of ours: Flower would split its own at commas, and command lines can be read by everyone.
credentials = os.environ.get("MAABO_FLOWER_AUTH")
if path := os.environ.get("MAABO_FLOWER_PASSWORD_FILE"):
    credentials = f"maabo:{read_secret(path, 'MAABO_FLOWER_PASSWORD_FILE')}"
basic_auth = [credentials] if credentials else []
if basic_auth:  # Flower itself shows its metrics to everyone
    Metrics.get = authenticated(Metrics.get)


def format_task(task: Any) -> Any:
    """Show results as the line that the task returned, not as Python would write it down."""
    if isinstance(task.result, str):
        task.result = task.result.strip("'\"")
    return task
