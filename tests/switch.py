"""A virtual network: hosts are network namespaces, and every frame between them passes through this process.

    host ── tap ──┐
    host ── tap ──┼── this process ◄── lines of JSON (stdin) ── tests.hosts.Network
    host ── tap ──┘                ──► one response each (stdout)

A TAP device delivers raw frames, with their checksums and not segmented further. A host has no interface but this and
its loopback, and no route out; nothing is changed in the machine's own namespace. A namespace disappears with its last
process; when stdin ends, because the test is over or was killed, all processes in hosts are killed.
"""

import ctypes
import fcntl
import heapq
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

NEW_NET, NEW_UTS = 0x40000000, 0x04000000
SET_INTERFACE, TAP, BARE_FRAMES = 0x400454CA, 0x0002, 0x1000
DIE_WITH_PARENT = 1
MAX_BYTES = 1 << 16
IPV4, ARP = b"\x08\x00", b"\x08\x06"
NORMAL = {"loss": 0.0, "delay": 0.0, "jitter": 0.0, "twice": 0.0}
"""Shares of frames that are lost and that are duplicated; the delay of each in seconds, and the maximum of a random
addition, by which frames overtake each other."""


def address(number):
    return f"10.77.0.{number}"


def hardware(number):
    return bytes((2, 0, 0, 0, 0, number))


class Switch:
    """Ports by host number, and the conditions of the link between each pair of hosts."""

    def __init__(self, seed):
        self.taps, self.holders, self.conditions = {}, [], {}
        self.late, self.random, self.counts = [], Random(seed), Counter()
        self.selector = selectors.DefaultSelector()
        self.selector.register(sys.stdin.fileno(), selectors.EVENT_READ, None)

    def run(self):
        """Forward frames and execute requests until stdin ends."""
        while True:
            for key, _ in self.selector.select(self._seconds_to_next()):
                if key.data is None:
                    line = sys.stdin.buffer.raw.readline()
                    if not line:
                        return
                    self._handle(json.loads(line))
                else:
                    self._receive(key.data, key.fd)
            self._deliver_late()

    def _handle(self, request):
        response = getattr(self, request.pop("do"))(**request)
        sys.stdout.write(json.dumps(response) + "\n")
        sys.stdout.flush()

    # Requests.

    def host(self, number, name):
        """Create a host and return the process that holds its namespaces."""
        pid, tap = make_host(number, name)
        self.taps[number] = tap
        self.holders.append(pid)
        self.selector.register(tap, selectors.EVENT_READ, number)
        return pid

    def change(self, links, **conditions):
        """Set the conditions of these links, pairs of host numbers."""
        self.conditions.update(dict.fromkeys(map(tuple, links), NORMAL | conditions))

    def count_frames(self):
        return dict(self.counts)

    # Frames.

    def _receive(self, source, tap):
        with suppress(BlockingIOError):
            while True:
                frame = os.read(tap, MAX_BYTES)
                if frame[12:14] in {IPV4, ARP}:
                    self._carry(source, frame)

    def _carry(self, source, frame):
        for target in self.taps:
            if target != source and (frame[0] & 1 or frame[:6] == hardware(target)):
                self._send(target, frame, self.conditions.get((source, target), NORMAL))

    def _send(self, target, frame, conditions):
        for _ in range(1 + self._happens("twice", conditions)):
            if self._happens("loss", conditions):
                continue
            delay = conditions["delay"] + conditions["jitter"] * self.random.random()
            if delay:
                self.counts["late"] += 1
                heapq.heappush(self.late, (time.monotonic() + delay, self.counts["late"], target, frame))
            else:
                self._deliver(target, frame)

    def _happens(self, fault, conditions):
        happens = self.random.random() < conditions[fault]
        self.counts[fault] += happens
        return happens

    def _seconds_to_next(self):
        return max(0.0, self.late[0][0] - time.monotonic()) if self.late else None

    def _deliver_late(self):
        while self.late and self.late[0][0] <= time.monotonic():
            _, _, target, frame = heapq.heappop(self.late)
            self._deliver(target, frame)

    def _deliver(self, target, frame):
        self.counts["carried"] += 1
        with suppress(OSError):  # the interface is down
            os.write(self.taps[target], frame)

    def end_hosts(self):
        """Kill all processes in hosts."""
        namespaces = {_namespace(Path(f"/proc/{pid}")) for pid in self.holders} - {None}
        while pids := [int(path.name) for path in Path("/proc").glob("[0-9]*") if _namespace(path) in namespaces]:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)


def _namespace(process):
    """Return the network namespace of a process; None if it has ended or is not readable."""
    try:
        return (process / "ns/net").stat().st_ino
    except OSError:
        return None


def make_host(number, name):
    """Start a process in new namespaces; return its id and the switch's end of its network device."""
    own_end, host_end = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        _be_host(number, name, host_end)
    host_end.close()
    with own_end:
        ready, (tap,), _, _ = socket.recv_fds(own_end, 1, 1)
    assert ready, f"host {name} could not be created"
    os.set_blocking(tap, False)
    return pid, tap


def _be_host(number, name, switch):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(DIE_WITH_PARENT, signal.SIGKILL)
    if libc.unshare(NEW_NET | NEW_UTS):
        raise OSError(ctypes.get_errno(), "unshare")
    socket.sethostname(name)
    tap = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tap, SET_INTERFACE, struct.pack("16sH", b"eth0", TAP | BARE_FRAMES))
    setup = [
        "link set lo up",
        f"link set eth0 address {hardware(number).hex(':')}",
        f"address add {address(number)}/24 dev eth0",
        "link set eth0 up",
    ]
    subprocess.run(["ip", "-batch", "-"], input="\n".join(setup), text=True, check=True)
    socket.send_fds(switch, [b"."], [tap])
    os.close(tap)
    while True:
        signal.pause()


if __name__ == "__main__":
    switch = Switch(int(sys.argv[1]))
    try:
        switch.run()
    finally:
        switch.end_hosts()
