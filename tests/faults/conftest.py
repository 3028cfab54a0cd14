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
    _standing.revive()
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
