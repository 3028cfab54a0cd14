"""One cluster is shared by tests that restore it; other tests create their own."""

import pytest

from tests.faults.world import World


@pytest.fixture(scope="session")
def _shared_world(tmp_path_factory):
    world = World(tmp_path_factory.mktemp("shared"))
    yield world
    world.close()


@pytest.fixture
def world(_shared_world):
    """A cluster with a scheduler and a worker (`world.first_scheduler`, `world.first_worker`), all healthy."""
    _shared_world.revive()
    return _shared_world


@pytest.fixture
def new_world(tmp_path):
    """Creates clusters with their own settings; the test starts the processes."""
    worlds = []

    def make(**settings):
        worlds.append(World(tmp_path, **settings))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()
