"""`python -m bench.quality`: run all experiments of the README, or some; each writes records, a table and a plot."""

import argparse
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

from bench import printing
from bench.quality import results
from bench.quality.experiment import Experiment, Record, Run
from bench.quality.peer_client import ROOT, Peers
from bench.quality.registry import EXPERIMENTS
from maabo_dist import __version__

PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
QUICK_OUT = ROOT / "build" / "quality"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = _parser()
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.experiments if name not in EXPERIMENTS]:
        parser.error(f"{unknown[0]} is not an experiment; there are {', '.join(EXPERIMENTS)}.")
    for option, path in (("--titanic", options.titanic), ("--boston", options.boston)):
        if path is not None and not path.is_file():
            parser.error(f"{option} {path}: no such file.")
    out = options.out or (QUICK_OUT if options.quick else results.RESULTS)
    out.mkdir(parents=True, exist_ok=True)
    methods = tuple(name.strip().casefold() for name in options.methods.split(",") if name.strip())
    files = {"titanic": options.titanic, "boston": options.boston}
    run = Run(options.seeds, options.quick, **files, peers=_peers(options.peers), jobs=_cores(), methods=methods)
    start = perf_counter()
    for name in options.experiments or [name for name, each in EXPERIMENTS.items() if each.page is None]:
        if reason := EXPERIMENTS[name].reason_to_skip(run):
            printing.console.print(f"{name} is skipped: {reason}.\n")
        else:
            _run_experiment(EXPERIMENTS[name], run, out)
    if out.resolve() == results.RESULTS:
        results.assemble(EXPERIMENTS.values(), out, results.README)
    printing.console.print(f"{perf_counter() - start:.0f} s in total; results in {out}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.quality", description=__doc__)
    parser.add_argument(
        "experiments", nargs="*", metavar="EXPERIMENT", help=f"some of {', '.join(EXPERIMENTS)} (default: all)"
    )
    parser.add_argument("--seeds", type=int, metavar="N", help="number of seeds, instead of each experiment's default")
    parser.add_argument(
        "--quick", action="store_true", help="small tables, few seeds: a smoke test, into build/quality"
    )
    parser.add_argument(
        "--titanic",
        type=Path,
        metavar="PATH",
        default=os.environ.get("MAABO_TITANIC"),
        help="the Titanic table as CSV (else $MAABO_TITANIC); without it, no titanic",
    )
    parser.add_argument(
        "--boston",
        type=Path,
        metavar="PATH",
        default=os.environ.get("MAABO_BOSTON"),
        help="tables: the Boston table as CSV (else $MAABO_BOSTON)",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where results go (default: bench/quality/results)")
    parser.add_argument(
        "--methods", default="", metavar="A,B", help="planted, wide, tables: only these methods, such as auto,FIGS"
    )
    parser.add_argument("--peers", metavar="PYTHON", help="the peers' Python, or none (default: that of .venv-peers)")
    return parser


def _cores() -> int:
    return os.cpu_count() or 1


def _peers(python_path: str | None) -> Peers | None:
    python = Path(python_path) if python_path else PEERS_PYTHON
    if python_path == "none" or (python_path is None and not python.exists()):
        printing.console.print(
            "No peers and no plots: the peers' environment is missing (make bench-quality sets it up).\n"
        )
        return None
    return Peers(python.absolute())


def _run_experiment(experiment: Experiment, run: Run, out: Path) -> None:
    start = perf_counter()
    records = _measure(experiment, run)
    results.write_records(out / f"{experiment.name}.csv", records)
    records = results.read_records(
        out / f"{experiment.name}.csv"
    )  # the table and the plot can be made again from the file
    summary = experiment.summarise(records)
    text = results.markdown(experiment, summary, _conditions(run, perf_counter() - start))
    (out / f"{experiment.name}.md").write_text(text, encoding="utf-8")
    if run.peers is not None:
        run.peers.draw(experiment.panels(records), out / f"{experiment.name}.png")
    checks = [
        f"{c.what}: {c.value:.3g}{c.unit} ({c.goal}{c.unit}) {printing.format_verdict(c.value, c.goal)[1]}"
        for c in summary.checks
    ]
    printing.print_table(experiment.title, summary.columns, summary.rows, [*checks, *summary.notes])


def _measure(experiment: Experiment, run: Run) -> list[Record]:
    """All records; after Ctrl-C those measured so far. Each row of the table states its number of seeds."""
    records: list[Record] = []
    try:
        for record in experiment.measure(run):
            records.append(record)
            printing.console.print(_line(experiment.name, record), style="dim", no_wrap=True, overflow="ellipsis")
    except KeyboardInterrupt:
        if not records:
            raise
        printing.console.print(f"{experiment.name} was interrupted.")
    return records


def _line(name: str, record: Record) -> str:
    fields = (f"{key} {value:.3g}" if isinstance(value, float) else f"{key} {value}" for key, value in record.items())
    return f"{name}: " + ", ".join(fields)


def _conditions(run: Run, seconds: float) -> str:
    peers = run.peers.versions() if run.peers else {}
    versions = {"maabo-dist": __version__, "Python": platform.python_version(), **peers}
    version_list = ", ".join(f"{name} {version}" for name, version in versions.items())
    restrictions = f", only {', '.join(run.methods)}" if run.methods else ""
    restrictions += f", {run.seeds} seeds requested" if run.seeds else ""
    return f"{datetime.now(UTC):%Y-%m-%d}, {run.jobs} cores, {seconds / 60:.1f} minutes{restrictions}; {version_list}."


if __name__ == "__main__":
    main()
