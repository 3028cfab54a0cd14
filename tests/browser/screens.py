"""Every state of the browser interface and the report: `python -m tests.browser.screens DIR [PREFIX]`.

Takes screenshots at the widths of a desktop and a phone, in both themes, from a real cluster that it brings into each
state: without workers, with a frozen worker, without Redis. Prints what is wrong with a screen: parts that are wider
than the window, findings of axe, and a first finding below the first screen. Takes some minutes; PREFIX selects
screens by the beginning of their names.
"""

import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import httpx
import numpy as np
import pandas as pd

from maabo_dist.contract.job import JobSpec
from scheduler.ledger.tenants import QuotaRow
from scheduler.resources import Resources
from tests import servers
from tests.browser.messy_table import LEAK, TARGET, as_csv, messy_table
from tests.browser.page_cluster import PLANNED, Cluster, axe_violations, choose_file, open_advanced
from tests.cluster import a_scheduler, cluster_settings
from tools.chromium import open_chromium

SIZES = {"desktop": (1440, 900), "phone": (390, 844)}
THEMES = ("light", "dark")
# Many trees, so that there is time to look.
LONG = {"trees": 200_000, "subset_size": 4, "batch": 8}
NOWHERE = {"fingerprint": "0" * 64, "name": "machines.parquet"}
END_OF_SENTENCE = (
    "document.querySelector('.finding .sentence').getBoundingClientRect().bottom + document.documentElement.scrollTop"
)
DRAWN = "html[data-drawn=yes]"


@dataclass(frozen=True)
class Screen:
    """A page in one state: its address, a selector to wait for, and an action that leads to the state."""

    name: str
    address: str
    ready: str
    act: Callable = lambda page: None
    seconds: float = 20
    has_finding: bool = False


class Photographer:
    """Takes screens in all sizes and themes, and lists what is wrong with them."""

    def __init__(self, browser, folder, prefix):
        self.browser, self.folder, self.prefix, self.problems = browser, folder, prefix, []

    def take(self, url, *screens):
        for screen in screens:
            if not screen.name.startswith(self.prefix):
                continue
            for theme in THEMES:
                for size in SIZES:
                    self._take(url, screen, size, theme)

    def _take(self, url, screen, size, theme):
        width, height = SIZES[size]
        context = self.browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
        context.set_default_timeout(screen.seconds * 1000)
        page = context.new_page()
        page.goto(screen.address if screen.address.startswith("file:") else f"{url}/{screen.address}")
        page.wait_for_selector(screen.ready)
        screen.act(page)
        page.wait_for_timeout(500)  # until animations have ended
        name = f"{screen.name}-{size}-{theme}"
        page.screenshot(path=self.folder / f"{name}.png", full_page=True)
        for problem in self._find_problems(page, screen, width, height):
            self.problems.append(f"{name}: {problem}")
            print(f"{name}: {problem}", flush=True)
        context.close()

    @staticmethod
    def _find_problems(page, screen, width, height):
        wide = page.evaluate("document.documentElement.scrollWidth")
        if wide > width:
            yield f"{wide} pixels wide"
        if screen.has_finding and (end := page.evaluate(END_OF_SENTENCE)) > height:
            yield f"the sentence of the first finding ends at {end} of {height} pixels"
        for rule, markup in axe_violations(page):
            yield f"axe: {rule}: {markup[:200]}"


def main(folder, prefix=""):
    folder.mkdir(parents=True, exist_ok=True)
    with open_chromium() as browser, TemporaryDirectory(prefix="maabo-screens-") as temporary, ExitStack() as redis:
        directory = Path(temporary)
        settings = cluster_settings(redis.enter_context(servers.redis_server(directory)), directory, partial_seconds=1)
        cluster, camera = Cluster(settings, directory), Photographer(browser, folder, prefix)
        with a_scheduler(settings):
            cluster.start()
            take_without_workers(camera, cluster)
            with servers.worker(settings, directory, "-P", "threads", "-c", "1", "--without-mingle") as worker:
                take_results(camera, cluster)
                job = take_running(camera, cluster)
                take_frozen(camera, cluster, worker, job)
            redis.close()
            camera.take(cluster.url, Screen("no-redis", f"#/jobs/{job}", ".job-status:has-text('Redis')", seconds=60))
            cluster.stop()
    print(f"{len(camera.problems)} problems; screens in {folder}")


def take_without_workers(camera, cluster):
    camera.take(cluster.url, Screen("jobs-empty", "#/", "text=No jobs yet"), Screen("upload", "#/new", ".drop"))
    messy, wide = cluster.dataset(messy_table(), "customers.csv"), cluster.dataset(wide_table(), "sensors.csv")
    job = cluster.submit(messy, TARGET, [LEAK])
    form = f"#/new?table={messy}"
    camera.take(
        cluster.url,
        Screen("preview", form, PLANNED),
        Screen("preview-latin-1", "#/new", ".drop", upload_latin_1),
        Screen("planning", "#/", "h1", lambda page: hold_plans(page, form)),
        Screen("advanced", form, PLANNED, open_advanced),
        Screen("form-problems", form, PLANNED, enter_invalid_values),
        Screen("unreadable-file", "#/new", ".drop", upload_nonsense),
        Screen("wide-table", f"#/new?table={wide}", PLANNED),
        Screen("no-workers", f"#/jobs/{job}", ".job-status[data-kind=stuck]"),
        Screen("jobs-no-workers", "#/", ".notice"),
        Screen("sign-in", "#/", ".jobs .name", show_sign_in),
        Screen("page-not-found", "#/nowhere", "h1"),
        Screen("job-not-found", f"#/jobs/{'0' * 32}", "text=No such job"),
    )
    httpx.post(f"{cluster.url}/v1/jobs/{job}/cancel").raise_for_status()


def take_results(camera, cluster):
    messy = cluster.dataset(messy_table(), "customers.csv")
    done, other = cluster.submit(messy, TARGET, [LEAK]), cluster.submit(messy, TARGET, [LEAK, "months"])
    nothing = cluster.submit(cluster.dataset(table_of_noise(), "noise.csv"), "target", certify="off")
    many = cluster.submit(cluster.dataset(table_of_kinds(), "kinds.csv"), "kind", all=True)
    for job in (done, other, nothing, many):
        cluster.wait_until_done(job)
    failed = add_failed_job(cluster)
    finished = f"#/jobs/{done}"
    camera.take(
        cluster.url,
        Screen("finished", finished, ".finding", has_finding=True),
        Screen("finding-opened", f"#job={done}&finding=R1", "[aria-label='Evidence for R1']", scroll_to_finding),
        Screen("verdict-explained", finished, ".finding .badge", lambda page: page.click(".finding .badge")),
        Screen("try-a-row", finished, "#try-row form", change_a_row),
        Screen("many-findings", f"#/jobs/{many}", ".finding"),
        Screen("nothing-found", f"#/jobs/{nothing}", ".headline"),
        Screen("failed", f"#/jobs/{failed}", ".state.large[data-state=failed]"),
        Screen("compare", f"#/compare?one={done}&other={other}", ".headline"),
        Screen("tables", "#/tables", ".tables .name"),
        Screen("jobs", "#/", ".jobs .name"),
        Screen("report", f"v1/jobs/{done}/report", DRAWN, has_finding=True),
        Screen("report-how", f"v1/jobs/{done}/report", DRAWN, open_details),
    )


def take_running(camera, cluster):
    """Return a job that goes on running."""
    table = cluster.dataset(with_noise(messy_table(4000), 60), "all-customers.csv")
    paused, cancelled = (cluster.submit(table, TARGET, [LEAK], seed=seed, **LONG) for seed in (1, 2))
    for job, act in ((paused, "pause"), (cancelled, "cancel")):
        wait_for_trees(cluster, job)
        httpx.post(f"{cluster.url}/v1/jobs/{job}/{act}").raise_for_status()
    running = cluster.submit(table, TARGET, [LEAK], seed=3, **LONG)
    wait_for_trees(cluster, running)
    with closing(Resources.connect(cluster.settings)) as resources:
        resources.ledger.quotas.set(QuotaRow(tenant="default", running=1))
    queued = cluster.submit(table, TARGET, [LEAK], seed=4)
    camera.take(
        cluster.url,
        Screen("running", f"#/jobs/{running}", ".progress-text:has-text('left')"),
        Screen("running-search", f"#/jobs/{running}", ".progress-text:has-text('left')", open_details),
        Screen("paused", f"#/jobs/{paused}", ".state.large[data-state=paused]"),
        Screen("cancelled", f"#/jobs/{cancelled}", ".state.large[data-state=cancelled]"),
        Screen("queued", f"#/jobs/{queued}", ".job-status:has-text('running')"),
    )
    return running


def take_frozen(camera, cluster, worker, job):
    """The worker still has its connection, and does nothing."""
    camera.take(cluster.url, Screen("slow", f"#/jobs/{job}", ".progress-text:not(:empty)", show_slow))
    worker.send_signal(signal.SIGSTOP)
    camera.take(cluster.url, Screen("frozen-workers", f"#/jobs/{job}", ".job-status", seconds=90))
    worker.send_signal(signal.SIGCONT)


def wait_for_trees(cluster, job, least=200):
    def has_trees():
        return httpx.get(f"{cluster.url}/v1/jobs/{job}").json()["trees"] >= least

    servers.wait_for(has_trees, 60, what="some trees")


def add_failed_job(cluster):
    """A job whose table is gone."""
    with closing(Resources.connect(cluster.settings)) as resources:
        job = uuid4().hex
        resources.ledger.jobs.add([JobSpec.model_validate({"id": job, "dataset": NOWHERE})], resources.clock())
        servers.wait_for(lambda: resources.ledger.jobs.get(job).state.ended, 60, what="the failure")
    return job


def wide_table():
    draws = np.random.default_rng(2)
    frame = pd.DataFrame(draws.normal(size=(400, 300)).round(3), columns=[f"sensor_{n:03}" for n in range(300)])
    return frame.assign(defect=np.where((frame["sensor_007"] > 0.2) & (frame["sensor_123"] < 0.5), "yes", "no"))


def with_noise(frame, count):
    draws = np.random.default_rng(4)
    return frame.assign(**{f"usage {n}": draws.normal(size=len(frame)).round(2) for n in range(1, count + 1)})


def table_of_noise():
    draw = np.random.default_rng(1)
    frame = pd.DataFrame(draw.random((200, 5)).round(2), columns=list("abcde"))
    favoured = (frame["a"] > 0.7) & (draw.random(200) < 0.55)
    return frame.assign(target=np.where(favoured, "yes", draw.choice(["yes", "no"], 200)))


def table_of_kinds():
    draws = np.random.default_rng(5)
    frame = pd.DataFrame(draws.normal(size=(900, 8)).round(2), columns=[f"x{number}" for number in range(8)])
    classes = np.select([frame["x0"] > 0.9, frame["x1"] > 0.9, frame["x2"] > 0.9, frame["x3"] > 0.9], list("abcd"), "e")
    return frame.assign(kind=classes)


def upload_latin_1(page):
    choose_file(page, "kunden.csv", as_csv(messy_table()))
    page.wait_for_selector(PLANNED)


def upload_nonsense(page):
    choose_file(page, "ragged.csv", b"a,b\n1,2\n1,2,3\n")
    page.wait_for_selector(".picker .error")


def hold_plans(page, form):
    """Show the form while the server still computes the plan."""
    page.route("**/v1/plans", lambda route: None)
    page.goto(f"{page.url.split('#')[0]}{form}")
    page.wait_for_selector(".plan-summary.loading", state="attached")


def enter_invalid_values(page):
    open_advanced(page)
    page.fill("#set-max_depth", "40")
    page.fill("#set-subset_size", "3 or 4")
    page.wait_for_selector("[aria-invalid]")


def show_slow(page):
    """Show the page as for a table whose tasks take minutes: with the obstacle that a scheduler then reports."""
    text = "no task was done for a while, and tasks take about 95 s"
    slow = {"kind": "slow", "text": text, "remedy": "Look at the log and the load of the workers.", "since": None}

    def answer(route):
        response = route.fetch()
        route.fulfill(response=response, json=response.json() | {"obstacle": slow})

    page.route(lambda url: url.endswith("/events"), lambda route: route.abort())
    page.route(lambda url: url.endswith(page.url.rpartition("/")[2]) and "/v1/jobs/" in url, answer)
    page.reload()
    page.wait_for_selector(".job-status:has-text('tasks take about')")


def show_sign_in(page):
    """Show the page as after a rejected token; this cluster needs none."""
    reason = "The token is not valid: it is unknown, revoked or expired."
    page.evaluate("why => dispatchEvent(new CustomEvent('maabo:signed-out', { detail: why }))", reason)
    page.wait_for_selector("#token")


def scroll_to_finding(page):
    page.evaluate("document.querySelector('#R1').scrollIntoView()")


def change_a_row(page):
    page.fill("#try-row input[type=number]", "99")


def open_details(page):
    page.locator("details:not(.menu)").evaluate_all("all => all.forEach((each) => (each.open = true))")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
