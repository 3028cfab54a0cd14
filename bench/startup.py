"""Start-up: how long importing the library, `maabo --help` and mining a small table take."""

import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench import printing, tables
from bench.timing import time_call

MAABO = str(Path(sys.executable).with_name("maabo"))
BARE = "python -c pass"
PANDAS = 'python -c "import pandas"'
ROWS, FEATURES = 1000, 20


def run(options) -> None:
    rounds = 3 if options.quick else 7
    with TemporaryDirectory() as folder:
        table = Path(folder) / "table.csv"
        tables.generated_frame(ROWS, FEATURES).to_csv(table, index=False)
        mine = f"maabo mine, a CSV of {ROWS:,} rows × {FEATURES} features"
        cases = {
            "import maabo_dist": ([sys.executable, "-c", "import maabo_dist"], BARE, None),
            "maabo --help": ([MAABO, "--help"], BARE, 35.0),
            "maabo mine --dataset diabetes": ([MAABO, "mine", "--dataset", "diabetes"], PANDAS, None),
            mine: ([MAABO, "mine", str(table), "--target", "label"], PANDAS, 4.0),
        }
        peers = {BARE: [sys.executable, "-c", "pass"], PANDAS: [sys.executable, "-c", "import pandas"]}
        commands = {name: command for name, (command, _, _) in cases.items() if _succeeds(command)} | peers
        seconds = {name: [] for name in commands}
        for _ in range(rounds):
            for name, command in commands.items():
                seconds[name].append(_time_command(command))
    middle = {name: median(taken) for name, taken in seconds.items()}
    rows = [
        (
            name,
            printing.format_time(middle[name]),
            peer,
            printing.format_time(middle[peer]),
            f"{middle[name] / middle[peer]:.2f}×",
            *printing.format_verdict(middle[name] / middle[peer], printing.Goal(maximum=goal) if goal else None),
        )
        for name, (_, peer, goal) in cases.items()
        if name in middle
    ]
    columns = ["", "wall time", "peer", "its time", "ratio", "goal", ""]
    notes = [f"Median of {rounds} interleaved runs after a warm-up, which compiles the kernels."]
    printing.print_table("5. Start-up", columns, rows, notes)


def _succeeds(command: list[str]) -> bool:
    """Run a command once, which is also its warm-up."""
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _time_command(command: list[str]) -> float:
    return time_call(lambda: subprocess.run(command, capture_output=True, check=True))
