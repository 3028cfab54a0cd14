"""`python -m bench.real_tables`: mine real tables with ours and eight peers, score all rules on unseen rows.

Results are kept below `.venv-peers/tables`; only what is missing is run. Each new version of the source runs again.
"""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import cache

from bench.printing import console
from bench.quality.__main__ import PEERS_PYTHON
from bench.quality.peer_client import PeerProcesses, Peers
from bench.quality.peers.miners import PACKAGES
from bench.real_tables import nulls, ours
from bench.real_tables.archives import download_packages
from bench.real_tables.draws import draw_rows
from bench.real_tables.figures import OURS, Comparison
from bench.real_tables.peers import FIT_LIMIT, PEERS, mine_with_peer
from bench.real_tables.records import Store
from bench.real_tables.registry import RealTable, select_tables
from bench.real_tables.scoring import Record, score_rules
from bench.real_tables.summary import print_list, print_summary

SPLITS = 5


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    console.width = 132
    tables, methods = select_tables(options.tables), _select_methods(options.only)
    store, version = Store(), options.version or ours.source_version()
    if options.list:
        download_packages()
        print_list(tables)
        return
    if not options.summary:
        download_packages()
        with _processes(methods) as processes:
            _report(_run_all(tables, methods, options.splits, store, version, processes))
        if options.nulls:
            _report(_run_nulls(options.nulls, nulls.Variant.ROWS, store, version))
        if options.group_nulls:
            _report(_run_nulls(options.group_nulls, nulls.Variant.GROUPS, store, version))
    print_summary(Comparison(tables, store, version, options.splits), store)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.real_tables", description=__doc__)
    parser.add_argument(
        "--tables", default="all", metavar="A,B", help="development, report, all or names (default: all)"
    )
    parser.add_argument("--only", default="all", metavar="A,B", help="ours, peers or names of methods (default: all)")
    parser.add_argument("--splits", type=int, default=SPLITS, metavar="N", help=f"random splits (default: {SPLITS})")
    parser.add_argument("--nulls", type=int, default=0, metavar="N", help="also N runs on shuffled labels")
    parser.add_argument(
        "--group-nulls", type=int, default=0, metavar="N", help="also N runs on shuffled labels of groups of rows"
    )
    parser.add_argument("--summary", action="store_true", help="run nothing, print the summary of what there is")
    parser.add_argument("--list", action="store_true", help="print the tables with their sizes and notes")
    parser.add_argument("--version", metavar="HASH", help="the version of ours to summarise (default: this source)")
    return parser


def _select_methods(names: str) -> list[str]:
    groups = {"all": [OURS, *PEERS], "peers": list(PEERS), **{name.lower(): [name] for name in (OURS, *PEERS)}}
    chosen = [name.strip().lower() for name in names.split(",")]
    if unknown := [name for name in chosen if name not in groups]:
        raise SystemExit(f"{unknown[0]} is not a method. Use all, peers or {', '.join((OURS, *PEERS))}.")
    return list(dict.fromkeys(method for name in chosen for method in groups[name]))


def _processes(methods: Sequence[str]) -> object:
    if set(methods) == {OURS}:
        return nullcontext()
    if not PEERS_PYTHON.exists():
        raise SystemExit("The peers' environment is missing: make bench-tables sets it up. --only ours needs none.")
    return Peers(PEERS_PYTHON.absolute()).processes(FIT_LIMIT)


@cache
def _peer_versions() -> dict[str, str]:
    """The version of the package of each peer."""
    installed = Peers(PEERS_PYTHON.absolute()).versions()
    return {name: installed[PACKAGES.get(miner, miner)] for name, miner in PEERS.items()}


@cache
def _warm_up_once() -> None:
    ours.warm_up()


@cache
def _warm_up_on(table: RealTable) -> None:
    """Mine a table once, unmeasured: it may meet a kernel that is not compiled yet."""
    _warm_up_once()
    ours.mine_with_ours(draw_rows(table, 0))


def _report(records: Iterator[Record]) -> None:
    for record in records:
        figures = f"{record['rules']} rules" if not record["failure"] else f"{record['failure']}: {record['message']}"
        spent = "" if record.get("cpu") is None else f", {record['cpu']:.1f} s"
        line = f"{record['table']}/{record['split']} {record['method']}: {figures}{spent}"
        console.print(line, style="dim", no_wrap=True, overflow="ellipsis")


def _run_all(
    tables: Sequence[RealTable],
    methods: Sequence[str],
    splits: int,
    store: Store,
    version: str,
    processes: PeerProcesses | None,
) -> Iterator[Record]:
    """Run what is missing, split by split, so that an interrupted run has something of every table."""
    versions = {name: version if name == OURS else _peer_versions()[name] for name in methods}
    for split in range(splits):
        for table in tables:
            for method in methods:
                if store.has(method, table.name, split, versions[method]):
                    continue
                record = {"method": method, "table": table.name, "split": split, "version": versions[method]}
                record |= _run_one(method, table, split, store.find(method, table.name, versions[method]), processes)
                store.add(record)
                yield record


def _run_one(
    method: str, table: RealTable, split: int, before: Sequence[Record], processes: PeerProcesses | None
) -> Record:
    if late := [record for record in before if record["failure"] == "timeout"]:
        return {"failure": "timeout", "message": late[0]["message"]}
    draw = draw_rows(table, split)
    if method == OURS:
        _warm_up_on(table)
        outcome = ours.mine_with_ours(draw)
    else:
        outcome = mine_with_peer(method, draw, processes)
    shape = [len(draw.train), draw.cells.shape[1]]
    record: Record = {"failure": outcome.failure, "message": outcome.message, "shape": shape, **outcome.details}
    record |= {"seconds": outcome.seconds, "cpu": outcome.cpu}
    return record if outcome.failure else record | score_rules(outcome.rules, draw)


def _run_nulls(count: int, variant: nulls.Variant, store: Store, version: str) -> Iterator[Record]:
    _warm_up_once()
    return nulls.run_nulls(count, variant, store, version)


if __name__ == "__main__":
    main()
