"""A network of its own: hosts are network namespaces, and every frame between them passes through this process.

    host ── tap ──┐
    host ── tap ──┼── this process ◄── lines of JSON (stdin) ── tests.hosts.Network
    host ── tap ──┘                ──► one answer each (stdout)

A TAP device hands over frames as a cable would: checksums done, nothing left to cut. There is no other interface in a
host than that and its loopback, no route out, and nothing in the namespace of the machine. A namespace is gone with the
last process in it; when stdin ends, because the test is over or was killed, all of those are ended.
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
MOST_BYTES = 1 << 16
IPV4, ARP = b"\x08\x00", b"\x08\x06"
CALM = {"loss": 0.0, "delay": 0.0, "jitter": 0.0, "twice": 0.0}
"""Shares of frames that are lost and that come twice; seconds that each takes, and up to so many more at random: they
overtake each other then."""


def address(number):
    return f"10.77.0.{number}"


def hardware(number):
    return bytes((2, 0, 0, 0, 0, number))


class Switch:
    """Ports by the numbers of hosts, and the weather on the way from each to each."""

    def __init__(self, seed):
        self.taps, self.holders, self.weather = {}, [], {}
        self.late, self.random, self.counts = [], Random(seed), Counter()
        self.selector = selectors.DefaultSelector()
        self.selector.register(sys.stdin.fileno(), selectors.EVENT_READ, None)

    def run(self):
        """Until stdin ends."""
        while True:
            for key, _ in self.selector.select(self._rest()):
                if key.data is None:
                    line = sys.stdin.buffer.raw.readline()
                    if not line:
                        return
                    self._obey(json.loads(line))
                else:
                    self._receive(key.data, key.fd)
            self._deliver_late()

    def _obey(self, order):
        answer = getattr(self, order.pop("do"))(**order)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()

    # What may be asked for.

    def host(self, number, name):
        """The process that holds the namespaces of a new host."""
        pid, tap = make_host(number, name)
        self.taps[number] = tap
        self.holders.append(pid)
        self.selector.register(tap, selectors.EVENT_READ, number)
        return pid

    def change(self, ways, **weather):
        """The weather on these ways, pairs of numbers."""
        self.weather.update(dict.fromkeys(map(tuple, ways), CALM | weather))

    def counted(self):
        return dict(self.counts)

    # Frames.

    def _receive(self, source, tap):
        with suppress(BlockingIOError):
            while True:
                frame = os.read(tap, MOST_BYTES)
                if frame[12:14] in {IPV4, ARP}:
                    self._carry(source, frame)

    def _carry(self, source, frame):
        for target in self.taps:
            if target != source and (frame[0] & 1 or frame[:6] == hardware(target)):
                self._send(target, frame, self.weather.get((source, target), CALM))

    def _send(self, target, frame, weather):
        for _ in range(1 + self._happens("twice", weather)):
            if self._happens("loss", weather):
                continue
            delay = weather["delay"] + weather["jitter"] * self.random.random()
            if delay:
                self.counts["late"] += 1
                heapq.heappush(self.late, (time.monotonic() + delay, self.counts["late"], target, frame))
            else:
                self._deliver(target, frame)

    def _happens(self, what, weather):
        happens = self.random.random() < weather[what]
        self.counts[what] += happens
        return happens

    def _rest(self):
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
        """Kill whatever runs in a host."""
        homes = {_home(Path(f"/proc/{pid}")) for pid in self.holders} - {None}
        while found := [int(path.name) for path in Path("/proc").glob("[0-9]*") if _home(path) in homes]:
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)


def _home(process):
    """The network namespace of a process; None if it has ended, or is not ours to know."""
    try:
        return (process / "ns/net").stat().st_ino
    except OSError:
        return None


def make_host(number, name):
    """A process in new namespaces, and the switch's end of the cable into them."""
    here, there = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        _be_host(number, name, there)
    there.close()
    with here:
        said, (tap,), _, _ = socket.recv_fds(here, 1, 1)
    assert said, f"host {name} could not be made"
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
