"""The client of `bench.quality.peers`, which it starts with the peers' Python; they exchange files and use pipes."""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread, Timer

import numpy as np
import pandas as pd

from bench.quality.figure import Panel

ROOT = Path(__file__).parents[2]
TIMEOUT = 300.0
"""Seconds that a peer may take for one table."""

PeerRule = list[tuple[int, str, float]]
"""Conditions: feature index, `<=` or `>`, threshold."""


class PeerError(Exception):
    """A peer took too long, or failed."""


class PeerTimeoutError(PeerError):
    """A peer took too long, and would again."""


@dataclass(frozen=True, slots=True)
class PeerMined:
    rules: list[PeerRule]
    seconds: float
    cpu: float


class Searcher:
    """A peer that proposes subsets and receives their scores, in turn."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self) -> list[int]:
        line = self._process.stdout.readline()
        if not line:
            raise PeerError(f"the searcher exited with code {self._process.wait()}")
        return json.loads(line)

    def tell(self, score: float) -> None:
        self._process.stdin.write(f"{score!r}\n")
        self._process.stdin.flush()


@dataclass(frozen=True, slots=True)
class Peers:
    """The peers' virtual environment."""

    python: Path

    def mine(self, method: str, frame: pd.DataFrame, labels: np.ndarray, seed: int, jobs: int) -> PeerMined:
        """Mine a table of numbers without missing cells; `labels` are 0 and 1."""
        with table_file(frame, labels) as table:
            answer = json.loads(self._call("mine", method, str(table), str(seed), str(jobs)))
        return PeerMined(**answer)

    @contextmanager
    def processes(self, cpu_limit: float | None = None) -> "Iterator[PeerProcesses]":
        """Miners whose processes are kept running, because imports take longer than a small table."""
        processes = PeerProcesses(self, cpu_limit)
        try:
            yield processes
        finally:
            processes.close()

    @contextmanager
    def searcher(self, method: str, features: int, size: int, seed: int) -> Iterator[Searcher]:
        arguments = self.command("search", method, str(features), str(size), str(seed))
        pipe = subprocess.PIPE
        with subprocess.Popen(arguments, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
            try:
                yield Searcher(process)
            finally:
                process.stdout.close()
                process.terminate()

    def draw(self, panels: Sequence[Panel], path: Path) -> None:
        with TemporaryDirectory() as folder:
            description = Path(folder) / "figure.json"
            description.write_text(json.dumps({"panels": [asdict(panel) for panel in panels]}))
            self._call("draw", str(description), str(path.resolve()))

    def versions(self) -> dict[str, str]:
        return json.loads(self._call("versions"))

    def unavailable(self) -> dict[str, str]:
        """The miners that are not available, each with the reason."""
        return json.loads(self._call("unavailable"))

    def command(self, *arguments: str) -> list[str]:
        return [str(self.python), "-m", "bench.quality.peers", *arguments]

    def _call(self, *arguments: str) -> str:
        try:
            run = subprocess.run(
                self.command(*arguments), cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT, check=True
            )
        except subprocess.TimeoutExpired:
            raise PeerTimeoutError(f"took more than {TIMEOUT:.0f} s") from None
        except subprocess.CalledProcessError as error:
            raise PeerError((error.stderr.strip().splitlines() or ["no message"])[-1]) from None
        return run.stdout.splitlines()[-1] if run.stdout.strip() else ""


class PeerProcesses:
    """Mines like `Peers`, with one running process for each method; one that takes too long is killed and restarted.

    `cpu_limit` bounds the CPU seconds for one table, whatever else the machine does, instead of the wall time.
    """

    def __init__(self, peers: Peers, cpu_limit: float | None = None) -> None:
        self._peers, self._processes, self._cpu_limit = peers, {}, cpu_limit

    def mine(
        self,
        method: str,
        frame: pd.DataFrame,
        labels: np.ndarray,
        seed: int,
        jobs: int,
        wanted: tuple[int, ...] = (0, 1),
    ) -> PeerMined:
        """Mine a table; peers that look for one class look for the `wanted` ones."""
        with table_file(frame, labels, wanted) as table:
            answer = self._answer(method, f"{table} {seed} {jobs}\n")
        if "failed" in answer:
            raise PeerError(answer["failed"])
        return PeerMined(**answer)

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.communicate()

    def _answer(self, method: str, request: str) -> dict[str, object]:
        process = self._process(method)
        watch = Timer(TIMEOUT, process.kill) if self._cpu_limit is None else CpuWatch(process, self._cpu_limit)
        watch.start()
        try:
            line = _send_request(process, request)
        finally:
            late = not watch.is_alive()
            watch.cancel()
        if line is None:
            del self._processes[method]
            ended = f"it exited with code {process.wait()}"
            limit = f"{TIMEOUT:.0f} s" if self._cpu_limit is None else f"{self._cpu_limit:.0f} s of CPU time"
            raise PeerTimeoutError(f"took more than {limit}") if late else PeerError(ended)
        return json.loads(line)

    def _process(self, method: str) -> "subprocess.Popen[str]":
        if method not in self._processes:
            pipe, command = subprocess.PIPE, self._peers.command("serve", method)
            self._processes[method] = subprocess.Popen(
                command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
            )
        return self._processes[method]


class CpuWatch(Thread):
    """Kills a process that uses more CPU time than allowed from now on; for Linux."""

    def __init__(self, process: "subprocess.Popen[str]", seconds: float) -> None:
        super().__init__(daemon=True)
        self._process, self._cancelled = process, Event()
        self._end = _cpu_seconds(process.pid) + seconds

    def run(self) -> None:
        while not self._cancelled.wait(0.25):
            if self._process.poll() is None and _cpu_seconds(self._process.pid) > self._end:
                self._process.kill()
                return

    def cancel(self) -> None:
        self._cancelled.set()


def _cpu_seconds(pid: int) -> float:
    """CPU time of all threads of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _send_request(process: "subprocess.Popen[str]", request: str) -> str | None:
    """Return the line with the answer, ignoring other output of the peer; None if the process has ended."""
    try:
        process.stdin.write(request)
        process.stdin.flush()
    except BrokenPipeError:
        return None
    return next((line for line in process.stdout if line.startswith("{")), None)


@contextmanager
def table_file(frame: pd.DataFrame, labels: np.ndarray, wanted: tuple[int, ...] = (0, 1)) -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        table = Path(folder) / "table.npz"
        np.savez(table, X=frame.to_numpy(np.float64), y=labels.astype(np.int64), wanted=np.array(wanted))
        yield table
