"""One cluster stands for all tests that leave it as they found it; the others make their own."""

import pytest

from tests.faults.world import World


@pytest.fixture(scope="session")
def _standing(tmp_path_factory):
    world = World(tmp_path_factory.mktemp("standing"))
    yield world
    world.close()


@pytest.fixture
def world(_standing):
    """A cluster with a scheduler and a worker (`world.first_scheduler`, `world.first_worker`), all of them well."""
    revive(_standing)
    return _standing


@pytest.fixture
def new_world(tmp_path):
    """Makes clusters with settings of their own; the processes are the test's to start."""
    made = []

    def make(**settings):
        made.append(World(tmp_path, **settings))
        return made[-1]

    yield make
    for world in made:
        world.close()


def revive(world):
    """Start what the last test has killed, and end what it has left."""
    if not world.redis.alive:
        world.redis.start()
    for kind, start in (("first_scheduler", world.scheduler), ("first_worker", world.worker)):
        if (process := getattr(world, kind, None)) is None or not process.alive:
            setattr(world, kind, start(wait=False))
    world.first_scheduler.ready("ready as")
    world.first_worker.ready(" ready.")
    world.end(*[other for other in world.processes if other not in (world.first_scheduler, world.first_worker)])
