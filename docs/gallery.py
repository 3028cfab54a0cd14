"""The screenshots of page and report: `python -m docs.gallery` (or `make gallery`) makes those that the documents show.

`--all DIR` makes every screen instead, at the widths of a phone and of a desk and in both themes, to be looked at.
A cluster of its own is started for it, and taken away. It needs Chromium and the extra `dev`.
"""

import json
import os
import shutil
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

IMAGES = Path(__file__).with_name("images")
START_SECONDS = 120
MOST_BYTES = 150_000
DESK, PHONE, SHOWN = 1600, 375, 1200
TARGET = "defect"
DRAWN = "html[data-drawn=yes]"
"""When a report has drawn its pictures."""


@dataclass(frozen=True, slots=True)
class Screen:
    """One page in one state: where it is, and what is to be done until it shows what it should."""

    name: str
    place: str
    ready: str
    act: Callable[[Any], None] = lambda _page: None


@click.command(help=__doc__)
@click.option("--all", "everything", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
def main(everything: Path | None) -> None:
    """Start a cluster, do something on it, and take pictures."""
    with TemporaryDirectory(prefix="maabo-gallery-") as folder, _cluster(Path(folder)) as url, _chromium() as browser:
        empty = Screen("jobs-empty", "#/", "text=No jobs yet")
        if everything is not None:
            _take_all(browser, url, [empty], everything)
        screens = _screens(httpx.Client(base_url=url, timeout=60))
        if everything is not None:
            _take_all(browser, url, screens, everything)
        else:
            _take_shown(browser, url, {screen.name: screen for screen in screens})


def _take_all(browser: Any, url: str, screens: list[Screen], folder: Path) -> None:
    for screen in screens:
        for theme in ("light", "dark"):
            for width in (PHONE, DESK):
                _take(browser, url, screen, folder / f"{screen.name}-{width}-{theme}.png", width, theme)


def _take_shown(browser: Any, url: str, screens: dict[str, Screen]) -> None:
    for name, width, theme, height in [
        ("job-running", SHOWN, "dark", 900),
        ("jobs", SHOWN, "light", 470),
        ("new-settings", SHOWN, "light", 900),
        ("job-done", SHOWN, "light", 900),
        ("job-done", PHONE, "light", 812),
        ("new-settings", PHONE, "dark", 812),
        ("report", SHOWN, "light", 1000),
        ("report-rule", SHOWN, "light", 1000),
        ("report-pictures", SHOWN, "dark", 1000),
        ("report", PHONE, "light", 812),
        ("report-rule", PHONE, "dark", 812),
    ]:
        of = "" if name.startswith("report") else "page-"
        path = IMAGES / f"{of}{name}{'-phone' if width == PHONE else ''}.png"
        _take(browser, url, screens[name], path, width, theme, height=height)
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise click.ClickException(f"{path} has {size:,} bytes; pictures in documents may have {MOST_BYTES:,}.")


def _take(
    browser: Any, url: str, screen: Screen, path: Path, width: int, theme: str, *, height: int | None = None
) -> None:
    """The whole page, or as much of it as a window of some height shows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    context = browser.new_context(viewport={"width": width, "height": height or 900}, color_scheme=theme)
    page = context.new_page()
    page.goto(f"{url}/{screen.place}")
    page.wait_for_selector(screen.ready, timeout=60_000)
    screen.act(page)
    page.wait_for_timeout(700)  # what moves has come to rest
    page.screenshot(path=path, full_page=height is None)
    wide = page.evaluate("document.documentElement.scrollWidth")
    context.close()
    click.echo(f"{path.name} {path.stat().st_size:,} bytes{f', {wide} wide' if wide > width else ''}")


def _screens(client: httpx.Client) -> list[Screen]:
    """Jobs in every state, and the screens that show them."""
    small = _dataset(client, _parts_table(2400, 4), "line-7.csv")
    large = _dataset(client, _parts_table(6000, 60), "press-shop.csv")
    done = _job(client, small, seed=5, holdout=0.2)
    cancelled = _job(client, large, seed=1, trees=4000, batch=2)
    paused = _job(client, large, seed=2, trees=4000, batch=8)
    _await(client, done, lambda job: job["state"] == "done")
    for job, act in ((cancelled, "cancel"), (paused, "pause")):
        _await(client, job, lambda found: found["trees"] > 200)
        client.post(f"/v1/jobs/{job}/{act}").raise_for_status()
    running = _job(client, large, seed=3, trees=40_000, batch=24, holdout=0.2, max_depth=6)
    _await(client, running, lambda job: job["rules"] and job["trees"] > 1500)
    return [
        Screen("job-running", f"#/jobs/{running}", ".rule", _await_trees),
        Screen("jobs", "#/", ".jobs .name"),
        Screen("new-table", "#/new", ".recent-tables li"),
        Screen("new-settings", f"#/new?table={small}", ".plan .figure:not(:text-is('–'))"),
        Screen("new-wide", f"#/new?table={large}", ".plan .figure:not(:text-is('–'))", _open_everything),
        Screen("new-wrong", f"#/new?table={large}", ".plan .figure:not(:text-is('–'))", _be_wrong),
        Screen("job-done", f"#/jobs/{done}", ".rule"),
        Screen("job-paused", f"#/jobs/{paused}", ".state.large[data-state=paused]"),
        Screen("job-cancelled", f"#/jobs/{cancelled}", ".state.large[data-state=cancelled]", _open_everything),
        Screen("sign-in", "#/", ".jobs .name", _sign_out),
        Screen("nothing", "#/nowhere", "h1"),
        Screen("report", f"v1/jobs/{done}/report", DRAWN),
        Screen("report-rule", f"v1/jobs/{done}/report#R1", DRAWN, _to_first_rule),
        Screen("report-pictures", f"v1/jobs/{done}/report", DRAWN, _to_pictures),
    ]


def _to_first_rule(page: Any) -> None:
    page.evaluate("document.querySelector('#R1').scrollIntoView()")


def _to_pictures(page: Any) -> None:
    page.evaluate("document.querySelector('#pictures').scrollIntoView()")


def _await_trees(page: Any) -> None:
    page.wait_for_selector(".chart .tree", state="attached")
    page.wait_for_selector(".load:has-text('busy')")


def _open_everything(page: Any) -> None:
    for closed in page.locator("summary").all():
        closed.click()


def _be_wrong(page: Any) -> None:
    page.fill("#set-max_depth", "40")
    page.fill("#set-subset_size", "3 or 4")
    page.wait_for_selector("[aria-invalid]")


def _sign_out(page: Any) -> None:
    """As the page looks when a token was refused; this cluster needs none."""
    said = "The token is not valid: it is unknown, revoked or expired."
    page.evaluate("why => dispatchEvent(new CustomEvent('maabo:signed-out', { detail: why }))", said)
    page.wait_for_selector("#token")


def _parts_table(rows: int, sensors: int) -> pd.DataFrame:
    """Parts of a factory, some of them defect: where a press is hot and slow, and with one supplier's steel."""
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


def _dataset(client: httpx.Client, table: pd.DataFrame, name: str) -> str:
    answer = client.post(
        "/v1/datasets",
        params={"name": name},
        content=table.to_csv(index=False).encode(),
        headers={"Content-Type": "text/csv"},
    )
    return str(answer.raise_for_status().json()["id"])


def _job(client: httpx.Client, dataset: str, **settings: object) -> str:
    table = {"target": TARGET, "exclude": ["part"]}
    answer = client.post("/v1/jobs", json={"dataset": dataset, "table": table, "settings": settings})
    return str(answer.raise_for_status().json()["id"])


def _await(client: httpx.Client, job: str, condition: Callable[[dict[str, Any]], object]) -> None:
    end = time.monotonic() + START_SECONDS
    while not condition(found := client.get(f"/v1/jobs/{job}").json()):
        if time.monotonic() > end:
            raise click.ClickException(f"Job {job} does not come to where it should: {found}.")
        time.sleep(0.1)


@contextmanager
def _cluster(folder: Path) -> Iterator[str]:
    """A cluster on this machine; gives the address of its page."""
    ready = folder / "ready.json"
    # A port of its own: at the usual one there may be a cluster that somebody works with.
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
                raise click.ClickException("The cluster does not start.")
            time.sleep(0.2)
        yield json.loads(ready.read_text())["http"]
    finally:
        process.terminate()
        process.wait()


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextmanager
def _chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        raise click.ClickException("There is no Chromium on the PATH (Debian: apt install chromium).")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield browser
        browser.close()


if __name__ == "__main__":
    main()
