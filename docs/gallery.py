"""Screenshots of the browser interface and the report: `python -m docs.gallery` (`make gallery`) makes those of docs.

The program starts a cluster and stops it again. It needs Chromium and the extra `dev`. `tests/browser/screens.py` takes
every state of every page, for review.
"""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import httpx
import numpy as np
import pandas as pd

from tools.chromium import open_chromium

IMAGES = Path(__file__).with_name("images")
START_SECONDS = 120
MAX_BYTES = 150_000
PHONE, DOCS = 375, 1200
TARGET = "defect"
DRAWN = "html[data-drawn=yes]"
"""Matches when a report has drawn its figures."""
PLANNED = ".estimate:not(:empty)"
"""Matches when the form shows how long the job takes."""


@dataclass(frozen=True, slots=True)
class Screen:
    """A page in one state: its address, a selector to wait for, and an action that leads to the state."""

    name: str
    address: str
    ready: str
    act: Callable[[Any], None] = lambda _page: None


@click.command(help=__doc__)
def main() -> None:
    """Start a cluster, run jobs on it, and take screenshots."""
    with (
        TemporaryDirectory(prefix="maabo-gallery-") as folder,
        _cluster(Path(folder)) as url,
        open_chromium() as browser,
    ):
        screens = _screens(httpx.Client(base_url=url, timeout=60))
        _take_for_docs(browser, url, {screen.name: screen for screen in screens})


def _take_for_docs(browser: Any, url: str, screens: dict[str, Screen]) -> None:
    for name, width, theme, height in [
        ("job-running", DOCS, "dark", 900),
        ("jobs", DOCS, "light", 470),
        ("new-settings", DOCS, "light", 900),
        ("job-done", DOCS, "light", 800),
        ("job-done", PHONE, "light", 812),
        ("new-settings", PHONE, "dark", 812),
        ("report", DOCS, "light", 690),
        ("report-rule", DOCS, "light", 840),
        ("report-pictures", DOCS, "dark", 900),
        ("report", PHONE, "light", 812),
        ("report-rule", PHONE, "dark", 812),
    ]:
        prefix = "" if name.startswith("report") else "page-"
        path = IMAGES / f"{prefix}{name}{'-phone' if width == PHONE else ''}.png"
        _take(browser, url, screens[name], path, width, theme, height)
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise click.ClickException(f"{path} has {size:,} bytes; the maximum for the docs is {MAX_BYTES:,}.")


def _take(browser: Any, url: str, screen: Screen, path: Path, width: int, theme: str, height: int) -> None:
    """Take what a window of this size shows."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
    page = context.new_page()
    page.goto(f"{url}/{screen.address}")
    page.wait_for_selector(screen.ready, timeout=60_000)
    screen.act(page)
    page.wait_for_timeout(700)  # until animations have ended
    page.screenshot(path=path)
    context.close()
    click.echo(f"{path.name} {path.stat().st_size:,} bytes")


def _screens(client: httpx.Client) -> list[Screen]:
    """Run jobs into several states, and return the screens that show them."""
    small = _upload(client, _parts_table(2400, 4), "line-7.csv")
    large = _upload(client, _parts_table(6000, 60), "press-shop.csv")
    done = _submit(client, small, seed=5, holdout=0.2)
    cancelled = _submit(client, large, seed=1, trees=4000, batch=2)
    paused = _submit(client, large, seed=2, trees=4000, batch=8)
    _wait_for(client, done, lambda record: record["state"] == "done")
    for job, act in ((cancelled, "cancel"), (paused, "pause")):
        _wait_for(client, job, lambda record: record["trees"] > 200)
        client.post(f"/v1/jobs/{job}/{act}").raise_for_status()
    running = _submit(client, large, seed=3, trees=40_000, batch=24, holdout=0.2, max_depth=6)
    _wait_for(client, running, lambda job: job["rules"] and job["trees"] > 1500)
    return [
        Screen("job-running", f"#/jobs/{running}", ".rule", _wait_for_estimate),
        Screen("jobs", "#/", ".jobs .name"),
        Screen("new-settings", f"#/new?table={small}", PLANNED),
        Screen("job-done", f"#/jobs/{done}", ".finding"),
        Screen("report", f"v1/jobs/{done}/report", DRAWN),
        Screen("report-rule", f"v1/jobs/{done}/report#R1", DRAWN, _scroll_to_rule),
        Screen("report-pictures", f"v1/jobs/{done}/report", DRAWN, _scroll_to_figures),
    ]


def _scroll_to_rule(page: Any) -> None:
    page.evaluate("document.querySelector('#R1').scrollIntoView()")


def _scroll_to_figures(page: Any) -> None:
    page.evaluate("document.querySelector('#pictures').scrollIntoView()")


def _wait_for_estimate(page: Any) -> None:
    page.wait_for_selector(".progress-text:has-text('left')")


def _parts_table(rows: int, sensors: int) -> pd.DataFrame:
    """Parts from a factory, some of them defective: if a press is hot and slow, and with steel of one supplier."""
    draws = np.random.default_rng(7)
    table = pd.DataFrame(
        {
            "temperature": draws.normal(182, 9, rows).round(1),
            "pressure": draws.gamma(9, 4, rows).round(2),
            "speed": draws.uniform(20, 90, rows).round(1),
            "humidity": draws.normal(45, 8, rows).round(0),
            "supplier": draws.choice(["Arlo", "Brenn", "Cobalt & Co"], rows, p=[0.5, 0.3, 0.2]),
            "shift": draws.choice(["early", "late", "night"], rows),
            "tool": draws.choice(["old", "new"], rows),
        }
        | {f"sensor {number}": draws.normal(size=rows).round(3) for number in range(1, sensors + 1)}
    )
    hot = (table["temperature"] > 188) & (table["speed"] < 48)
    steel = (table["supplier"] == "Cobalt & Co") & (table["tool"] == "old") & (table["pressure"] > 34)
    table.loc[draws.random(rows) < 0.03, "humidity"] = np.nan
    wrong = draws.random(rows) < np.where(hot | steel, 0.94, 0.05)
    return table.assign(part=[f"P-{number:05}" for number in range(rows)], **{TARGET: np.where(wrong, "yes", "no")})


def _upload(client: httpx.Client, table: pd.DataFrame, name: str) -> str:
    answer = client.post(
        "/v1/datasets",
        params={"name": name},
        content=table.to_csv(index=False).encode(),
        headers={"Content-Type": "text/csv"},
    )
    return str(answer.raise_for_status().json()["id"])


def _submit(client: httpx.Client, dataset: str, **settings: object) -> str:
    table = {"target": TARGET, "exclude": ["part"]}
    answer = client.post("/v1/jobs", json={"dataset": dataset, "table": table, "settings": settings})
    return str(answer.raise_for_status().json()["id"])


def _wait_for(client: httpx.Client, job: str, condition: Callable[[dict[str, Any]], object]) -> None:
    end = time.monotonic() + START_SECONDS
    while not condition(record := client.get(f"/v1/jobs/{job}").json()):
        if time.monotonic() > end:
            raise click.ClickException(f"Job {job} does not reach the expected state: {record}.")
        time.sleep(0.1)


@contextmanager
def _cluster(folder: Path) -> Iterator[str]:
    """Start a cluster on this machine and yield its URL."""
    ready = folder / "ready.json"
    # Another port, because a cluster may already use the default one.
    options = [
        "--data-dir",
        str(folder / "data"),
        "--ready-file",
        str(ready),
        "--http-port",
        str(_free_port()),
        "--quiet",
    ]
    process = subprocess.Popen([sys.executable, "-m", "deploy.local", "up", *options])  # noqa: S603 - our own command
    try:
        end = time.monotonic() + START_SECONDS
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > end:
                raise click.ClickException("The cluster did not start.")
            time.sleep(0.2)
        yield json.loads(ready.read_text())["http"]
    finally:
        process.terminate()
        process.wait()


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


if __name__ == "__main__":
    main()
