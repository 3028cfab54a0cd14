"""The page says the truth about jobs that wait or are stuck, on a cluster without workers."""

import signal
from contextlib import ExitStack
from tempfile import TemporaryDirectory

import pytest
from sklearn.datasets import load_breast_cancer

from tests import servers
from tests.browser.page_cluster import PLANNED, Cluster, axe_violations
from tests.cluster import a_scheduler, cluster_settings

pytestmark = pytest.mark.xdist_group("page")
SLOW = {"trees": 20_000, "subset_size": 4, "batch": 2}


@pytest.fixture(scope="module")
def idle_cluster(browser, tmp_path_factory):
    """A cluster with a scheduler and no worker."""
    directory = tmp_path_factory.mktemp("idle")
    with TemporaryDirectory(prefix="maabo-redis-") as folder, servers.redis_server(folder) as redis_url:
        settings = cluster_settings(redis_url, directory)
        cluster = Cluster(settings, directory)
        with a_scheduler(settings):
            cluster.start()
            cluster.directory = directory
            yield cluster
            cluster.stop()


@pytest.fixture(scope="module")
def dataset(idle_cluster):
    return idle_cluster.dataset(load_breast_cancer(as_frame=True).frame)


def worker(cluster):
    return servers.worker(cluster.settings, cluster.directory, "-P", "threads", "-c", "1", "--without-mingle")


def test_a_job_without_workers_says_so_until_one_is_started(idle_cluster, dataset, show):
    form = show(f"{idle_cluster.url}/#/new?table={dataset}")
    form.wait_for_selector(f"{PLANNED}:has-text('No worker is running')")
    page = show(f"{idle_cluster.url}/#/jobs/{idle_cluster.submit(dataset, seed=1, **SLOW)}", width=390)
    page.wait_for_selector(".job-status[data-kind=stuck]:has-text('No worker is running')")

    assert "celery -A workers.app worker" in page.inner_text(".job-status")
    assert page.inner_text(".state.large") == "No workers"
    assert "left" not in page.inner_text(".progress-text")
    assert axe_violations(page) == []
    form.goto(f"{idle_cluster.url}/#/")
    form.wait_for_selector(".notice:has-text('No worker is running')")
    assert form.inner_text(".notice code") == "celery -A workers.app worker"
    assert "`" not in form.inner_text(".notice")
    with worker(idle_cluster):
        page.wait_for_selector(".progress-text:has-text('left')", timeout=60_000)
        page.wait_for_selector(".job-status", state="hidden")
        page.click("text=Cancel")
        page.click("text=Really cancel?")
        page.wait_for_selector(".state.large[data-state=cancelled]")


def test_a_job_says_that_redis_is_away(browser, tmp_path, show):
    with TemporaryDirectory(prefix="maabo-redis-") as folder, ExitStack() as redis:
        settings = cluster_settings(redis.enter_context(servers.redis_server(folder)), tmp_path)
        cluster = Cluster(settings, tmp_path)
        with a_scheduler(settings):
            cluster.start()
            try:
                table = cluster.dataset(load_breast_cancer(as_frame=True).frame)
                page = show(f"{cluster.url}/#/jobs/{cluster.submit(table, **SLOW)}", expecting="503|Failed to load")
                page.wait_for_selector(".progress-text:not(:empty)")
                redis.close()
                page.wait_for_selector(".job-status[data-kind=stuck]:has-text('Redis cannot be reached')")

                assert page.inner_text(".state.large") == "Waiting for Redis"
                assert "left" not in page.inner_text(".progress-text")
            finally:
                cluster.stop()


@pytest.mark.soak
def test_the_estimate_disappears_when_the_workers_stop_answering(idle_cluster, dataset, show):
    """A frozen worker keeps its connection, and its heartbeat expires only after some time."""
    page = show(f"{idle_cluster.url}/#/jobs/{idle_cluster.submit(dataset, seed=2, **SLOW)}")
    with worker(idle_cluster) as process:
        page.wait_for_selector(".progress-text:has-text('left')", timeout=60_000)
        process.send_signal(signal.SIGSTOP)
        try:
            page.wait_for_selector(".progress-text:not(:has-text('left'))")
            page.wait_for_selector(".job-status[data-kind=stuck]", timeout=60_000)
            assert "left" not in page.inner_text(".progress-text")
        finally:
            process.send_signal(signal.SIGCONT)
        page.wait_for_selector(".progress-text:has-text('left')", timeout=60_000)
    page.click("text=Cancel")
    page.click("text=Really cancel?")
    page.wait_for_selector(".state.large[data-state=cancelled]", timeout=60_000)
