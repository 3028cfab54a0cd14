"""Flower's configuration file, which Flower executes: every name in here that is an option of its sets that option."""

import os
from typing import Any

persistent = False
max_tasks = 10_000
# Looking, not touching: the scheduler owns delivery, so a task revoked or sent from here would only be sent again.
read_only = True
tasks_columns = "name,args,result,state,received,runtime,worker"
# From a variable of ours: Flower would split its own at commas, and command lines can be read by everyone.
basic_auth = [credentials] if (credentials := os.environ.get("MAABO_FLOWER_AUTH")) else []


def format_task(task: Any) -> Any:
    """Show results as the line that the task returned, not as Python would write it down."""
    if isinstance(task.result, str):
        task.result = task.result.strip("'\"")
    return task
