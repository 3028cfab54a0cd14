"""`python -m bench.quality`: all experiments of the README, or those named; each leaves records, a table and a plot."""

import argparse
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

from bench import show
from bench.quality import results
from bench.quality.experiment import Experiment, Record, Run
from bench.quality.peer_calls import ROOT, Peers
from bench.quality.registry import EXPERIMENTS
from maabo_dist import __version__

PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
QUICK_OUT = ROOT / "build" / "quality"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = _parser()
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.experiments if name not in EXPERIMENTS]:
        parser.error(f"{unknown[0]} is no experiment; there are {', '.join(EXPERIMENTS)}.")
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
        if lack := EXPERIMENTS[name].lacks(run):
            show.console.print(f"{name} is left out: {lack}.\n")
        else:
            _carry_out(EXPERIMENTS[name], run, out)
    if out.resolve() == results.RESULTS:
        results.assemble(EXPERIMENTS.values(), out, results.README)
    show.console.print(f"{perf_counter() - start:.0f} s in all; results in {out}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.quality", description=__doc__)
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help=f"of {', '.join(EXPERIMENTS)}; else all")
    parser.add_argument(
        "--seeds", type=int, metavar="N", help="this many seeds, instead of each experiment's own number"
    )
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
        "--methods", default="", metavar="A,B", help="planted, wide, tables: these methods alone, such as auto,FIGS"
    )
    parser.add_argument("--peers", metavar="PYTHON", help="the peers' Python, or none (default: that of .venv-peers)")
    return parser


def _cores() -> int:
    return os.cpu_count() or 1


def _peers(wanted: str | None) -> Peers | None:
    python = Path(wanted) if wanted else PEERS_PYTHON
    if wanted == "none" or (wanted is None and not python.exists()):
        show.console.print("Without the peers' environment (make bench-quality sets it up): no peers, no plots.\n")
        return None
    return Peers(python.absolute())


def _carry_out(experiment: Experiment, run: Run, out: Path) -> None:
    start = perf_counter()
    records = _measured(experiment, run)
    results.write_records(out / f"{experiment.name}.csv", records)
    records = results.read_records(out / f"{experiment.name}.csv")  # what is shown can be made again from the file
    summary = experiment.summarise(records)
    text = results.markdown(experiment, summary, _conditions(run, perf_counter() - start))
    (out / f"{experiment.name}.md").write_text(text, encoding="utf-8")
    if run.peers is not None:
        run.peers.draw(experiment.panels(records), out / f"{experiment.name}.png")
    checks = [
        f"{c.what}: {c.value:.3g}{c.unit} ({c.goal}{c.unit}) {show.verdict(c.value, c.goal)[1]}" for c in summary.checks
    ]
    show.table(experiment.title, summary.columns, summary.rows, [*checks, *summary.notes])


def _measured(experiment: Experiment, run: Run) -> list[Record]:
    """All records; after Ctrl-C those there are, and each row of the table says of how many seeds it is."""
    records: list[Record] = []
    try:
        for record in experiment.measure(run):
            records.append(record)
            show.console.print(_line(experiment.name, record), style="dim", no_wrap=True, overflow="ellipsis")
    except KeyboardInterrupt:
        if not records:
            raise
        show.console.print(f"{experiment.name} is cut short.")
    return records


def _line(name: str, record: Record) -> str:
    shown = (f"{key} {value:.3g}" if isinstance(value, float) else f"{key} {value}" for key, value in record.items())
    return f"{name}: " + ", ".join(shown)


def _conditions(run: Run, seconds: float) -> str:
    peers = run.peers.versions() if run.peers else {}
    versions = {"maabo-dist": __version__, "Python": platform.python_version(), **peers}
    shown = ", ".join(f"{name} {version}" for name, version in versions.items())
    asked = f", only {', '.join(run.methods)}" if run.methods else ""
    asked += f", {run.seeds} seeds asked for" if run.seeds else ""
    return f"{datetime.now(UTC):%Y-%m-%d}, {run.jobs} cores, {seconds / 60:.1f} minutes{asked}; {shown}."


if __name__ == "__main__":
    main()
