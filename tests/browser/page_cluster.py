"""A cluster for tests of the browser interface, and what these tests do in the browser."""

import re
from contextlib import contextmanager

import httpx

from maabo_dist.contract.result import ResultDocument
from maabo_dist.report.briefing import finding_sentence, useful_order
from tests import servers

TIMEOUT = 20_000
"""Timeout for anything to appear, in milliseconds."""
AXE = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}}
PLANNED = ".estimate:not(:empty)"
"""Matches when the form shows how long the job takes."""


class Cluster:
    """A cluster whose API process can be stopped and restarted on the same port."""

    def __init__(self, settings, directory):
        self.settings, self._directory = settings, directory
        self._port, self._server = str(servers.free_port()), None
        self.url = f"http://127.0.0.1:{self._port}"

    def start(self):
        self._server = servers.http_process(self.settings, self._directory, "--port", self._port)
        _, self.process = self._server.__enter__()

    def stop(self):
        self._server.__exit__(None, None, None)

    def dataset(self, frame, name="table.csv"):
        text = frame.to_csv(index=False).encode()
        response = httpx.post(
            f"{self.url}/v1/datasets", params={"name": name}, content=text, headers={"Content-Type": "text/csv"}
        )
        return response.raise_for_status().json()["id"]

    def submit(self, dataset, target="target", exclude=(), **settings):
        document = {"dataset": dataset, "table": {"target": target, "exclude": exclude}, "settings": settings}
        return httpx.post(f"{self.url}/v1/jobs", json=document, timeout=60).raise_for_status().json()["id"]

    def document(self, address):
        """The result of the job at this address."""
        job = re.search("[0-9a-f]{32}", address)[0]
        return httpx.get(f"{self.url}/v1/jobs/{job}/rules?format=json").json()

    def sentences(self, address):
        """The sentences of the findings of the job at this address, as the library formats them."""
        document = ResultDocument.parse(self.document(address))
        return [finding_sentence(rule, document.dataset) for rule in useful_order(document)]

    def wait_until_done(self, job):
        def is_done():
            return httpx.get(f"{self.url}/v1/jobs/{job}").json()["state"] == "done"

        servers.wait_for(is_done, 60, what="the end of a job")


def is_own(url, home):
    return url.startswith((home, f"blob:{home}", "data:"))


@contextmanager
def saved(page):
    """Yield a list that contains the name and text of the downloaded file at the end."""
    download_record = []
    with page.expect_download() as download:
        yield download_record
    download_record += [download.value.suggested_filename, download.value.path().read_text()]


def number_of(page, tile):
    text = page.text_content(f".tiles [data-fact={tile}] dd")  # they are folded
    return int(text.replace(",", "")) if text != "–" else 0


def wait_for_trees(page, least):
    page.wait_for_function(
        "least => Number(document.querySelector('.tiles dd')?.textContent.replaceAll(',', '')) >= least", arg=least
    )


def drop(page, name, text):
    """Drop a file anywhere on the page."""
    make = (
        "([name, text]) => { const given = new DataTransfer(); given.items.add(new File([text], name)); return given }"
    )
    page.wait_for_selector(".drop-overlay", state="attached")
    page.dispatch_event("body", "drop", {"dataTransfer": page.evaluate_handle(make, [name, text])})


def choose_file(page, name, content):
    page.wait_for_selector(".drop")
    page.set_input_files("#file", {"name": name, "mimeType": "", "buffer": content})


def open_advanced(page):
    page.click("#advanced > summary")


def start(page):
    page.click(".start button.main")


def axe_violations(page):
    from axe_playwright_python.sync_playwright import Axe

    violations = Axe().run(page, options=AXE).response["violations"]
    return [(each["id"], each["nodes"][0]["html"]) for each in violations]
