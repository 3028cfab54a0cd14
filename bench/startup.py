"""How long a person waits: import, `maabo --help`, and rules on the screen."""

import subprocess
import sys
from pathlib import Path
from statistics import median

from bench import show
from bench.clock import stopwatch

MAABO = str(Path(sys.executable).with_name("maabo"))
BARE = [sys.executable, "-c", "pass"]


def run(options) -> None:
    rounds = 3 if options.quick else 7
    cases = [
        ("import maabo_dist", [sys.executable, "-c", "import maabo_dist"], 0.5),
        ("maabo --help", [MAABO, "--help"], 0.5),
        ("maabo mine --dataset diabetes", [MAABO, "mine", "--dataset", "diabetes"], None),
    ]
    cases = [case for case in cases if _works(case[1])]
    seconds = {what: [] for what, _, _ in cases} | {"bare": []}
    for _ in range(rounds):
        seconds["bare"].append(_seconds(BARE))
        for what, command, _ in cases:
            seconds[what].append(_seconds(command))
    bare = median(seconds["bare"])
    rows = [
        (what, show.time(median(seconds[what])), show.time(bare), *_verdict(median(seconds[what]), goal))
        for what, _, goal in cases
    ]
    columns = ["", "wall time", "python -c pass", "goal", ""]
    notes = [f"Median of {rounds} interleaved runs after a warm-up, which compiles the kernels."]
    show.table("5. Start-up", columns, rows, notes)


def _verdict(seconds: float, goal: float | None) -> tuple[str, str]:
    if goal is None:
        return "", ""
    return f"< {goal} s", show.verdict(seconds, show.Goal(most=goal))[1]


def _works(command: list[str]) -> bool:
    """Also the warm-up."""
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _seconds(command: list[str]) -> float:
    return stopwatch(lambda: subprocess.run(command, capture_output=True, check=True))
