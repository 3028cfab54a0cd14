"""Hosts for tests: network namespaces with an address, a name and processes each, and a switch between them.

    with Network() as network:
        redis, worker = network.host("redis"), network.host("worker")
        worker.run([...], environment, log)
        network.change(loss=0.05, jitter=0.02)      # everywhere
        network.cut(worker)                         # a pulled cable; `mend` puts it back

No root is needed where the machine lets anyone make user namespaces. `why_not` says what is missing.
"""

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from tests import servers, switch
from tests.processes import Process

PLAIN, AS_USER = ("unshare", "--net"), ("unshare", "--net", "--user", "--map-root-user")


@cache
def way_in():
    """The command that makes a network namespace here: as root does it, or as anyone may; None if neither works."""
    tried = ((way, subprocess.run([*way, "true"], capture_output=True, check=False)) for way in (PLAIN, AS_USER))
    return next((way for way, run in tried if run.returncode == 0), None)


def why_not():
    """Why this machine has no hosts to give; None if it has."""
    missing = [program for program in ("unshare", "nsenter", "ip") if shutil.which(program) is None]
    if missing:
        return f"{', '.join(missing)} not installed; `apt-get install util-linux iproute2` brings it."
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "/dev/net/tun cannot be opened; `modprobe tun` brings it."
    return None if way_in() else "Network namespaces are permitted neither to this user nor in a user namespace."


def need():
    """Skip the test where there are no hosts; fail it where there should be."""
    reason = why_not()
    if reason:
        (pytest.fail if os.environ.get("MAABO_TEST_HOSTS") == "1" else pytest.skip)(reason)


class Network:
    """A switch with hosts. What is asked of it holds from when the call returns."""

    def __init__(self, seed=1):
        command = [*way_in(), sys.executable, "-m", "tests.switch", str(seed)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._switch = subprocess.Popen(command, cwd=servers.ROOT, text=True, start_new_session=True, **pipes)
        self.hosts = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """End all that runs in hosts, and with it the hosts."""
        self._switch.stdin.close()
        self._switch.wait()
        self._switch.stdout.close()

    def host(self, name):
        number = len(self.hosts) + 1
        pid = self._ask("host", number=number, name=name)
        self.hosts.append(Host(name, number, pid))
        return self.hosts[-1]

    def change(self, sources=None, targets=None, **weather):
        """The weather (`switch.CALM`) on the ways from some hosts to some; to and from all unless they are named."""
        numbers = [[host.number for host in hosts or self.hosts] for hosts in (sources, targets)]
        self._ask("change", ways=list(product(*numbers)), **weather)

    def cut(self, host):
        """Nothing comes from the host and nothing reaches it. It cannot tell: its interface stays up."""
        self.silence(host)
        self.change(targets=[host], loss=1.0)

    def silence(self, host):
        """Nothing comes from the host any more; it still hears all."""
        self.change(sources=[host], loss=1.0)

    def mend(self):
        self.change()

    @property
    def counts(self):
        """Frames: `carried`, `late`, `twice`, and those of them that were a `loss`."""
        return self._ask("counted")

    def _ask(self, what, **values):
        self._switch.stdin.write(json.dumps({"do": what} | values) + "\n")
        self._switch.stdin.flush()
        answer = self._switch.stdout.readline()
        assert answer, "the switch has ended"
        return json.loads(answer)


class Host:
    """Namespaces that a process of the switch holds."""

    def __init__(self, name, number, pid):
        self.name, self.number, self.pid, self.address = name, number, pid, switch.address(number)
        user = [] if way_in() == PLAIN else ["--user", "--preserve-credentials"]
        self.entering = ["nsenter", "--target", str(pid), *user, "--net", "--uts", "--"]

    def run(self, command, environment, log, root=servers.ROOT):
        """Start a process here."""
        return Process([*self.entering, *command], environment, Path(log), root)

    def link(self, state):
        """Take the interface `down`, which the host notices, or `up`."""
        subprocess.run([*self.entering, "ip", "link", "set", "eth0", state], check=True)
