"""Hosts for tests: network namespaces, each with an address, a name and processes, and a switch between them.

    with Network() as network:
        redis, worker = network.host("redis"), network.host("worker")
        worker.run([...], environment, log)
        network.change(loss=0.05, jitter=0.02)      # everywhere
        network.cut(worker)                         # a pulled cable; `repair` puts it back

Root is not needed on machines that allow user namespaces. `missing_requirement` names what is missing.
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
def namespace_command():
    """Return the command that creates a network namespace, as root or as a user; None if neither works."""
    runs = (
        (command, subprocess.run([*command, "true"], capture_output=True, check=False)) for command in (PLAIN, AS_USER)
    )
    return next((command for command, run in runs if run.returncode == 0), None)


def missing_requirement():
    """Return the reason why this machine cannot run hosts; None if it can."""
    missing = [program for program in ("unshare", "nsenter", "ip") if shutil.which(program) is None]
    if missing:
        return f"{', '.join(missing)} not installed; `apt-get install util-linux iproute2` provides it."
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "/dev/net/tun cannot be opened; `modprobe tun` creates it."
    return (
        None
        if namespace_command()
        else "Network namespaces are permitted neither to this user nor in a user namespace."
    )


def need():
    """Skip the test on machines that cannot run hosts; fail it if MAABO_TEST_HOSTS requires them."""
    reason = missing_requirement()
    if reason:
        (pytest.fail if os.environ.get("MAABO_TEST_HOSTS") == "1" else pytest.skip)(reason)


class Network:
    """A switch with hosts. Changes take effect before the call returns."""

    def __init__(self, seed=1):
        command = [*namespace_command(), sys.executable, "-m", "tests.switch", str(seed)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._switch = subprocess.Popen(command, cwd=servers.ROOT, text=True, start_new_session=True, **pipes)
        self.hosts = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Kill all processes in hosts, which removes the hosts."""
        self._switch.stdin.close()
        self._switch.wait()
        self._switch.stdout.close()

    def host(self, name):
        number = len(self.hosts) + 1
        pid = self._request("host", number=number, name=name)
        self.hosts.append(Host(name, number, pid))
        return self.hosts[-1]

    def change(self, sources=None, targets=None, **conditions):
        """Set the conditions (see `switch.NORMAL`) of the links from `sources` to `targets`, by default all hosts."""
        numbers = [[host.number for host in hosts or self.hosts] for hosts in (sources, targets)]
        self._request("change", links=list(product(*numbers)), **conditions)

    def cut(self, host):
        """Drop all traffic from and to the host, which does not notice: its interface stays up."""
        self.silence(host)
        self.change(targets=[host], loss=1.0)

    def silence(self, host):
        """Drop all traffic from the host; it still receives."""
        self.change(sources=[host], loss=1.0)

    def repair(self):
        self.change()

    @property
    def counts(self):
        """The numbers of frames that were `carried`, `late`, sent `twice`, or lost (`loss`)."""
        return self._request("count_frames")

    def _request(self, action, **values):
        self._switch.stdin.write(json.dumps({"do": action} | values) + "\n")
        self._switch.stdin.flush()
        response = self._switch.stdout.readline()
        assert response, "the switch has ended"
        return json.loads(response)


class Host:
    """Network and host name namespaces, which exist as long as a process of the switch."""

    def __init__(self, name, number, pid):
        self.name, self.number, self.pid, self.address = name, number, pid, switch.address(number)
        user = [] if namespace_command() == PLAIN else ["--user", "--preserve-credentials"]
        self.entering = ["nsenter", "--target", str(pid), *user, "--net", "--uts", "--"]

    def run(self, command, environment, log, root=servers.ROOT):
        """Start a process in the host."""
        return Process([*self.entering, *command], environment, Path(log), root)

    def link(self, state):
        """Set the interface `down`, which the host notices, or `up`."""
        subprocess.run([*self.entering, "ip", "link", "set", "eth0", state], check=True)
