"""The configuration of Flower, which executes this file: names that are options of Flower set them."""

import os
from typing import Any

from flower.views.monitor import Metrics  # type: ignore[import-untyped]
from tornado.web import authenticated

from maabo_dist.cluster.settings import read_secret

persistent = False
max_tasks = 10_000
# The scheduler owns delivery: it would resend a task that was revoked here.
read_only = True
tasks_columns = "name,args,result,state,received,runtime,worker"
# Flower splits its own variable at commas, and every user can read command lines.
credentials = os.environ.get("MAABO_FLOWER_AUTH")
if path := os.environ.get("MAABO_FLOWER_PASSWORD_FILE"):
    credentials = f"maabo:{read_secret(path, 'MAABO_FLOWER_PASSWORD_FILE')}"
basic_auth = [credentials] if credentials else []
if basic_auth:  # Flower does not protect its metrics
    Metrics.get = authenticated(Metrics.get)


def format_task(task: Any) -> Any:
    """Show a result as the line that the task returned, without the quotes of its repr."""
    if isinstance(task.result, str):
        task.result = task.result.strip("'\"")
    return task
