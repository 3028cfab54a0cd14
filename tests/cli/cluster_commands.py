"""What tests of the cluster commands share."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager

from maabo_dist.cli import maabo as group

JOB = "7f3a" + "0" * 28
OTHER = "7f3a" + "1" * 28
QUICK = ("--target", "y", "--trees", "10", "--min-samples", "20")
# A background parent may ignore SIGINT, and a child inherits that.
LISTEN = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from maabo_dist.cli import main; main()"
)


def timeless(text):
    document = json.loads(text)
    document["search"]["seconds"] = document["certificate"]["seconds"] = 0
    return document


def options(name):
    return {option for parameter in group.commands[name].params for option in parameter.opts}


@contextmanager
def started(server, *arguments, stderr=subprocess.PIPE):
    environment = os.environ | {"MAABO_REDIS": server.redis_url}
    command = [sys.executable, "-c", LISTEN, *map(str, arguments)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=stderr, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
