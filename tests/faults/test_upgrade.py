"""Workers and schedulers are replaced one by one by those of another release while a job runs."""

import signal
from functools import cache

import pytest

from scheduler.ledger.schema import VERSION
from tests import builds, servers
from tests.faults.world import MINING, World
from tests.ledgers import remember_results, remembered_subsets

pytestmark = pytest.mark.xdist_group("faults")

TOO_NEW = "contract version 3; this program supports version 2. Upgrade this program."
TOO_OLD = "contract version 2; this program supports version 3. Upgrade its sender."


@pytest.fixture(scope="module")
def releases(tmp_path_factory):
    """Returns the root of the source tree of a release."""
    directory = tmp_path_factory.mktemp("releases")
    return cache(lambda name: servers.ROOT if name == "this" else builds.later_release(directory, name))


@pytest.fixture
def cluster(tmp_path, releases):
    cluster = Cluster(tmp_path, releases)
    yield cluster
    cluster.close()


class Cluster(World):
    """Processes of several releases. Workers are slow until `release_workers`."""

    def __init__(self, directory, releases):
        super().__init__(directory)
        self.releases, self.hold = releases, directory / "hold"
        self.hold.touch()
        remember_results(self.settings.ledger_url)

    def start(self, *components):
        """Start components, pairs of `scheduler` or `worker` and the release, all at the same time."""
        processes = [self._start_component(kind, self.releases(release)) for kind, release in components]
        for (kind, _), process in zip(components, processes, strict=True):
            process.ready({"scheduler": "ready as", "worker": " ready."}[kind])
        return processes

    def _start_component(self, kind, root):
        if kind == "scheduler":
            return self.scheduler(root=root, wait=False)
        return self.worker("tests.faults.held_app", environment={"HOLD": str(self.hold)}, root=root, wait=False)

    def retire(self, *processes):
        """Terminate processes with SIGTERM, as a supervisor does."""
        for process in processes:
            process.signal(signal.SIGTERM)
        assert [process.exit_code(20) for process in processes] == [0] * len(processes)

    def check_progress(self, job, trees=100):
        """Wait for more trees, and check that the job is still running."""
        self.under_way(job, self.row(job).trees + trees)

    def release_workers(self):
        self.hold.unlink()

    def check_done(self, job, mining=None, **options):
        """Like `Client.check_done`; also check that no subset is missing, given up or in two rows."""
        row = super().check_done(job, mining, **options)
        subsets = remembered_subsets(self.settings.ledger_url, job)
        assert len(subsets) == len(set(subsets)) == row.trees == (mining or MINING)["trees"]
        assert row.failed == 0
        return row


def refusals(*schedulers):
    """Return the lines about tasks that workers refused and answers that schedulers refused."""
    lines = [line for process in schedulers for line in process.log.splitlines()]
    return [line for line in lines if "task unavailable" in line or "answer refused" in line]


@pytest.mark.slow
def test_workers_and_then_schedulers_are_upgraded_while_a_job_runs(cluster):
    scheduler, worker = cluster.start(("scheduler", "this"), ("worker", "this"))
    job = cluster.submit()
    cluster.under_way(job, 100)
    _, new_scheduler = cluster.start(("worker", "next"), ("scheduler", "next"))
    cluster.retire(worker)
    cluster.check_progress(job)
    cluster.retire(scheduler)
    cluster.release_workers()

    cluster.check_done(job)
    assert "job resumed" in new_scheduler.log
    assert not refusals(scheduler, new_scheduler)


@pytest.mark.soak
def test_schedulers_and_then_workers_are_upgraded_while_a_job_runs(cluster):
    scheduler, worker = cluster.start(("scheduler", "this"), ("worker", "this"))
    job = cluster.submit()
    cluster.under_way(job, 100)
    (new_scheduler,) = cluster.start(("scheduler", "next"))
    cluster.retire(scheduler)
    cluster.check_progress(job)
    cluster.start(("worker", "next"))
    cluster.retire(worker)
    cluster.check_progress(job)
    cluster.release_workers()

    cluster.check_done(job)
    assert not refusals(scheduler, new_scheduler)


@pytest.mark.soak
def test_a_job_survives_three_upgrades_and_nothing_is_refused(cluster):
    schedulers = cluster.start(("scheduler", "this"))
    (worker,) = cluster.start(("worker", "this"))
    mining = MINING | {"trees": 12000}
    job = cluster.submit(mining)
    cluster.under_way(job, 50)
    for release in ("next", "after next", "third"):
        schedulers += cluster.start(("scheduler", release))
        cluster.retire(schedulers[-2])
        cluster.check_progress(job, 50)
        (new_worker,) = cluster.start(("worker", release))
        cluster.retire(worker)
        cluster.check_progress(job, 50)
        worker = new_worker
    cluster.release_workers()

    cluster.check_done(job, mining, seconds=90)
    assert not refusals(*schedulers)


@pytest.mark.soak
def test_a_worker_downgraded_after_one_upgrade_still_works(cluster):
    scheduler, worker = cluster.start(("scheduler", "next"), ("worker", "next"))
    job = cluster.submit()
    cluster.under_way(job, 100)
    cluster.start(("worker", "this"))
    cluster.retire(worker)
    cluster.check_progress(job)
    cluster.release_workers()

    cluster.check_done(job)
    assert not refusals(scheduler)


@pytest.mark.soak
def test_a_worker_downgraded_by_two_releases_refuses_clearly_and_the_job_continues(cluster):
    scheduler, _ = cluster.start(("scheduler", "after next"), ("worker", "next"))
    job = cluster.submit()
    cluster.under_way(job, 100)
    cluster.start(("worker", "this"))
    cluster.check_progress(job)
    servers.wait_for(lambda: refusals(scheduler), 20, what="a refusal")
    cluster.release_workers()

    cluster.check_done(job)
    assert all(TOO_NEW in line for line in refusals(scheduler))


@pytest.mark.soak
@pytest.mark.parametrize(
    ("scheduler", "worker", "reason"),
    [
        ("after next", "this", TOO_NEW),
        ("this", "third", TOO_OLD),
    ],
)
def test_an_upgrade_that_skips_a_release_waits_for_one_that_both_support(cluster, scheduler, worker, reason):
    first, _ = cluster.start(("scheduler", scheduler), ("worker", worker))
    job = cluster.submit()
    servers.wait_for(lambda: len(refusals(first)) > 3, 30, what="refusals")
    assert all(reason in line for line in refusals(first))
    assert cluster.row(job).trees == 0
    cluster.start(("worker", "next"))
    cluster.release_workers()

    cluster.check_done(job, seconds=60)


@pytest.mark.soak
def test_a_scheduler_that_is_older_than_the_ledger_refuses_to_start(cluster):
    cluster.start(("scheduler", "next"))
    old = cluster.scheduler(wait=False)

    assert old.exit_code(30) == 2
    expected = f"schema version {VERSION + 1}; this scheduler knows {VERSION}. Use a newer scheduler."
    assert expected in old.log
