"""The supervisor over processes that are only said to run."""

from itertools import count

import pytest

from deploy.local.processes import Part
from deploy.local.supervisor import PartError, Supervisor

PARTS = [
    Part(role, name, (), {})
    for role, name in [
        ("redis", "redis"),
        ("scheduler", "scheduler"),
        ("worker", "worker1"),
        ("worker", "worker2"),
        ("service", "service"),
        ("flower", "flower"),
    ]
]


class Process:
    def __init__(self, pid, part, world):
        self.pid, self.part, self.world, self.end = pid, part, world, None
        if part.name in world.broken:
            self.end = "exit code 2"

    def ended(self):
        return self.end

    def terminate(self):
        self.world.told.append(("terminate", self.part.name))
        if self.part.name not in self.world.stubborn:
            self.end = "exit code 0"

    def kill(self):
        if self.end is None:
            self.world.told.append(("kill", self.part.name))
        self.end = self.end or "SIGKILL"

    def output(self):
        return "first line\nlast line\n"


class World:
    """Clock, processes, and who is healthy."""

    def __init__(self):
        self.now, self.pids = 0.0, count(100)
        self.running, self.sick, self.broken, self.stubborn = {}, set(), set(), set()
        self.told, self.lines = [], []
        self.supervisor = Supervisor(PARTS, self.start, self.checks, self.lines.append, lambda: self.now, self.sleep)

    def start(self, part):
        self.running[part.name] = Process(next(self.pids), part, self)
        return self.running[part.name]

    def checks(self, unsure):
        return {part.name for part, _ in unsure} - self.sick

    def sleep(self, seconds):
        self.now += seconds

    def turn_until(self, end):
        while self.now < end:
            self.supervisor.turn()
            self.now += 0.1


def test_all_parts_are_started_at_once():
    world = World()
    world.sick = {"worker2"}

    world.supervisor.turn()

    assert world.running.keys() == {"redis", "scheduler", "worker1", "worker2", "service", "flower"}
    assert world.supervisor.waiting_for == ["worker2"]


def test_a_part_that_ends_is_started_again_and_a_line_says_why():
    world = World()
    world.turn_until(1)
    world.running["worker1"].end = "SIGKILL"
    world.turn_until(1.4)
    assert not world.supervisor.healthy

    world.turn_until(2)

    assert world.lines == ["worker1 ended (SIGKILL) and was started again as process 106."]
    assert world.supervisor.healthy
    assert world.supervisor.processes[2:4] == [("worker", 106), ("worker", 103)]


def test_a_new_process_counts_when_it_is_healthy():
    world = World()
    world.turn_until(1)
    world.running["redis"].end, world.sick = "exit code 1", {"redis"}

    world.turn_until(3)

    assert world.running["redis"].pid == 106
    assert world.supervisor.processes[0] == ("redis", 100)
    assert world.supervisor.waiting_for == ["redis"]


def test_a_part_that_never_gets_going_ends_it_all_with_the_end_of_its_log():
    world = World()
    world.sick, world.broken = {"scheduler"}, {"scheduler"}

    with pytest.raises(PartError, match=r"scheduler ended 5 times .* with exit code 2.*\nfirst line\nlast line"):
        world.turn_until(100)

    assert world.now < 10


def test_parts_stop_before_those_that_they_need():
    world = World()
    world.turn_until(1)

    killed = world.supervisor.stop()

    order = [name for _, name in world.told]
    assert order == ["flower", "service", "worker1", "worker2", "scheduler", "redis"]
    assert killed == []


def test_a_part_that_does_not_stop_is_killed_after_its_grace():
    world = World()
    world.turn_until(1)
    world.stubborn = {"worker2"}

    killed = world.supervisor.stop()

    assert killed == ["worker2"]
    assert ("kill", "worker2") in world.told
    assert world.now == pytest.approx(11, abs=0.2)


def test_a_hurried_stop_kills_at_once():
    world = World()
    world.turn_until(1)
    world.stubborn = {part.name for part in PARTS}

    world.supervisor.stop(hurried=lambda: True)

    killed = [name for act, name in world.told if act == "kill"]
    assert killed == ["flower", "service", "worker1", "worker2", "scheduler", "redis"]
    assert world.now < 1.2
