"""The report of 200 rules of 1,000 features in Chromium: `python -m bench.report_page`.

Measures its size, the time to first paint, and the time to the next frame after sorting, filtering and opening a rule.
Needs Chromium and the extra `dev`.
"""

from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np

from bench import printing
from maabo_dist.data.preparation import prepare
from maabo_dist.mining.local import mine
from maabo_dist.report.document import result_document
from maabo_dist.report.figures import figures_of
from maabo_dist.report.html import report_page
from maabo_dist.settings import MiningSettings, TableSettings
from tools.chromium import open_chromium

RULES, FEATURES, ROWS, ROUNDS = 200, 1000, 5000, 7
DRAWN = "html[data-drawn=yes]"
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
UNTIL_SHOWN = """new Promise(done => {
  const start = performance.now();
  {%s}
  requestAnimationFrame(() => setTimeout(() => done(performance.now() - start)));
})"""
ACTS = {
    "sort": "const list = document.getElementById('sort'); list.value = 'rows';list.dispatchEvent(new Event('change'))",
    "filter by text": "const box = document.querySelector('input[type=search], input[type=text]');"
    "box.value = box.value ? '' : 'x1'; box.dispatchEvent(new Event('input', { bubbles: true }))",
    "open a rule": "document.querySelectorAll('.finding button[aria-expanded]')[3].click()",
}


def main() -> None:
    page = _report()
    with TemporaryDirectory() as folder, open_chromium() as browser:
        path = Path(folder) / "rules.html"
        path.write_text(page, encoding="utf-8")
        rows = [("size of the page", f"{len(page.encode()) / 1e6:.2f} MB", "")]
        rows += [_row(name, values) for name, values in _measured(browser, path.as_uri()).items()]
    printing.print_table(
        f"A report of {RULES} rules of {FEATURES:,} features in Chromium", ["", "median", "worst"], rows
    )


def _report() -> str:
    import pandas as pd

    draw = np.random.default_rng(4)
    values = draw.normal(size=(ROWS, FEATURES)).astype(np.float32)
    frame = pd.DataFrame(values, columns=[f"x{number}" for number in range(FEATURES)])
    positive = (values[:, 0] > 0.3) & (values[:, 1] < 0.5) | (values[:, 2] > 1)
    frame["y"] = np.where(positive ^ (draw.random(ROWS) < 0.1), "yes", "no")
    columns = prepare(frame, TableSettings(target="y")).columns
    chosen = MiningSettings(preset="paper", min_samples=20, gini=0.95, trees=1500, strategy="random", holdout=0.2)
    result = mine(columns, chosen, keep_records=True)
    document = result_document(result, {"name": "wide"})
    document = document.model_copy(update={"rules": document.rules[:RULES]})
    assert len(document.rules) == RULES
    return report_page(document, figures_of(result, columns))


def _measured(browser, address: str) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {"first paint": [], "all figures drawn": []} | {name: [] for name in ACTS}
    for _ in range(ROUNDS):
        page = browser.new_page(viewport={"width": 1600, "height": 1000})
        page.goto(address)
        page.wait_for_selector(DRAWN, state="attached")
        taken["all figures drawn"].append(page.evaluate("performance.now()"))
        taken["first paint"].append(page.evaluate(PAINTED))
        for name, act in ACTS.items():
            taken[name].append(page.evaluate(UNTIL_SHOWN % act))
        page.close()
    return taken


def _row(name: str, values: list[float]) -> tuple[str, str, str]:
    return name, f"{median(values):.0f} ms", f"{max(values):.0f} ms"


if __name__ == "__main__":
    main()
