"""The supervisor with simulated processes and a simulated clock."""

from itertools import count

import pytest

from deploy.local.plan import Component
from deploy.local.supervisor import ComponentError, Supervisor

COMPONENTS = [
    Component(role, name, (), {})
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
    def __init__(self, pid, component, world):
        self.pid, self.component, self.world, self.reason = pid, component, world, None
        if component.name in world.broken:
            self.reason = "exit code 2"

    def exit_reason(self):
        return self.reason

    def terminate(self):
        self.world.calls.append(("terminate", self.component.name))
        if self.component.name not in self.world.stubborn:
            self.reason = "exit code 0"

    def kill(self):
        if self.reason is None:
            self.world.calls.append(("kill", self.component.name))
        self.reason = self.reason or "SIGKILL"

    def output(self):
        return "first line\nlast line\n"


class World:
    """Clock, processes and their health."""

    def __init__(self):
        self.now, self.pids = 0.0, count(100)
        self.running, self.sick, self.broken, self.stubborn = {}, set(), set(), set()
        self.calls, self.lines = [], []
        self.supervisor = Supervisor(
            COMPONENTS, self.start, self.check_health, self.lines.append, lambda: self.now, self.sleep
        )

    def start(self, component):
        self.running[component.name] = Process(next(self.pids), component, self)
        return self.running[component.name]

    def check_health(self, components):
        return {component.name for component, _ in components} - self.sick

    def sleep(self, seconds):
        self.now += seconds

    def run_until(self, end):
        while self.now < end:
            self.supervisor.step()
            self.now += 0.1


def test_all_components_are_started_together():
    world = World()
    world.sick = {"worker2"}

    world.supervisor.step()

    assert world.running.keys() == {"redis", "scheduler", "worker1", "worker2", "service", "flower"}
    assert world.supervisor.unhealthy == ["worker2"]


def test_a_component_that_exits_is_restarted_with_a_line_that_says_why():
    world = World()
    world.run_until(1)
    world.running["worker1"].reason = "SIGKILL"
    world.run_until(1.4)
    assert not world.supervisor.healthy

    world.run_until(2)

    assert world.lines == ["worker1 exited (SIGKILL) and was restarted as process 106."]
    assert world.supervisor.healthy
    assert world.supervisor.processes[2:4] == [("worker", 106), ("worker", 103)]


def test_a_new_process_counts_when_it_is_healthy():
    world = World()
    world.run_until(1)
    world.running["redis"].reason, world.sick = "exit code 1", {"redis"}

    world.run_until(3)

    assert world.running["redis"].pid == 106
    assert world.supervisor.processes[0] == ("redis", 100)
    assert world.supervisor.unhealthy == ["redis"]


def test_a_component_that_never_becomes_healthy_stops_all_with_the_end_of_its_log():
    world = World()
    world.sick, world.broken = {"scheduler"}, {"scheduler"}

    with pytest.raises(ComponentError, match=r"scheduler exited 5 times .* with exit code 2.*\nfirst line\nlast line"):
        world.run_until(100)

    assert world.now < 10


def test_components_stop_before_those_that_they_need():
    world = World()
    world.run_until(1)

    killed = world.supervisor.stop()

    order = [name for _, name in world.calls]
    assert order == ["flower", "service", "worker1", "worker2", "scheduler", "redis"]
    assert killed == []


def test_a_component_that_does_not_stop_is_killed_after_its_grace_period():
    world = World()
    world.run_until(1)
    world.stubborn = {"worker2"}

    killed = world.supervisor.stop()

    assert killed == ["worker2"]
    assert ("kill", "worker2") in world.calls
    assert world.now == pytest.approx(11, abs=0.2)


def test_an_immediate_stop_kills():
    world = World()
    world.run_until(1)
    world.stubborn = {component.name for component in COMPONENTS}

    world.supervisor.stop(immediately=lambda: True)

    killed = [name for call, name in world.calls if call == "kill"]
    assert killed == ["flower", "service", "worker1", "worker2", "scheduler", "redis"]
    assert world.now < 1.2
