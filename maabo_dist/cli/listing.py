"""What is listed, as people read it: jobs and the facts of one, tokens, quotas."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from maabo_dist._util.text import printable
from maabo_dist.cli.progress import duration_text
from maabo_dist.contract.ids import SHORT_DIGITS, short_id
from maabo_dist.contract.job import JobState
from maabo_dist.contract.record import JobRecord

PIPE_WIDTH = 160
"""Columns of what goes to a file or a pipe: enough for every cell, since programs cut lines up."""

_STYLES = {
    JobState.RUNNING: "cyan",
    JobState.MINING: "cyan",
    JobState.PAUSED: "yellow",
    JobState.DONE: "green",
    JobState.FAILED: "red",
    JobState.CANCELLED: "dim",
}
_NOTHING = "–"


def print_jobs(records: Iterable[JobRecord], now: float) -> None:
    """A line for each job; `now` in seconds since the epoch."""
    table = Table(box=SIMPLE_HEAD, header_style="dim", border_style="dim", padding=(0, 1))
    # On a narrow terminal names are broken; an id must stay whole, to be given back.
    table.add_column("job", no_wrap=True, min_width=SHORT_DIGITS)
    table.add_column("state", no_wrap=True, min_width=max(map(len, JobState)))
    table.add_column("dataset", overflow="fold", max_width=30)
    for title in ("trees", "best F1", "rules", "age", "ran"):
        table.add_column(title, justify="right", no_wrap=True)
    for record in records:
        table.add_row(*_cells(record, now))
    _print(table)


def print_record(record: JobRecord) -> None:
    """What is known of one job."""
    _print_facts(_facts(record))


def print_tokens(tokens: Iterable[Mapping[str, Any]]) -> None:
    """A line for each token."""
    table = Table(box=SIMPLE_HEAD, header_style="dim", border_style="dim", padding=(0, 1))
    table.add_column("token", no_wrap=True)
    table.add_column("tenant", overflow="fold")
    table.add_column("permits", overflow="fold")
    table.add_column("made", no_wrap=True)
    table.add_column("valid", overflow="fold")
    table.add_column("name", overflow="fold")
    for token in tokens:
        permits, made = ", ".join(token["scopes"]), moment_text(token["created"])
        table.add_row(
            token["id"],
            _named(token["tenant"]),
            permits,
            made,
            _validity_text(token),
            _named(token["name"] or _NOTHING),
        )
    _print(table)


def print_quota(quota: Mapping[str, Any]) -> None:
    """What a tenant may have, and what it has."""
    limits = {name: quota[name] for name in ("queued", "running", "bytes", "trees")}
    texts = {name: "no limit" if limit is None else f"{limit:,}" for name, limit in limits.items()}
    texts["bytes"] += f" ({quota['bytes_stored']:,} stored)"
    _print_facts([("tenant", _named(quota["tenant"])), *texts.items()])


def moment_text(moment: float) -> str:
    """A moment, in seconds since the epoch, as the clock on the wall has it."""
    return datetime.fromtimestamp(moment).astimezone().isoformat(" ", "seconds")


def _cells(record: JobRecord, now: float) -> Iterator[str | Text]:
    yield short_id(record.id)
    yield _state(record)
    yield _named(record.name)
    yield _trees_text(record)
    yield _score_text(record)
    yield _NOTHING if record.rules is None else f"{record.rules:,}"
    yield duration_text(max(0.0, now - record.created)) if record.created else _NOTHING
    yield duration_text(record.seconds)


def _facts(record: JobRecord) -> Iterator[tuple[str, str | Text]]:
    yield "job", record.id
    yield "state", _state(record)
    yield "dataset", _named(record.name)
    yield "tenant", _named(record.tenant)
    yield "priority", record.priority.value
    yield "trees", _trees_text(record)
    if record.failed:
        yield "failed", f"{record.failed:,} subsets"
    yield "best F1", _score_text(record)
    yield "rules", _NOTHING if record.rules is None else f"{record.rules:,}"
    for name, moment in (("created", record.created), ("started", record.started), ("finished", record.finished)):
        if moment:
            yield name, moment_text(moment)
    yield "ran", duration_text(record.seconds)
    if record.digest:
        yield "digest", record.digest[:16]
    if record.reason:
        yield "reason", _named(record.reason)


def _validity_text(token: Mapping[str, Any]) -> str:
    if token["revoked"]:
        return f"revoked {moment_text(token['revoked'])}"
    return f"until {moment_text(token['expires'])}" if token["expires"] else "until revoked"


def _print_facts(facts: Iterable[tuple[str, str | Text]]) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, text in facts:
        table.add_row(name, text)
    _print(table)


def _state(record: JobRecord) -> Text:
    return Text(record.state.value, style=_STYLES.get(record.state, ""))


def _trees_text(record: JobRecord) -> str:
    """`120/455 (26 %)`, or `screening 40 %` before there are any."""
    if record.pairs and record.pairs_screened is not None:
        return f"screening {100 * record.pairs_screened // record.pairs} %"
    if not record.planned:
        return f"{record.trees:,}"
    return f"{record.trees:,}/{record.planned:,} ({100 * record.trees // record.planned} %)"


def _score_text(record: JobRecord) -> str:
    return _NOTHING if record.best_score is None else f"{record.best_score:.3f}"


def _named(text: str) -> Text:
    """A text from outside, which is not to be taken for markup."""
    return Text(printable(text))


def _print(table: Table) -> None:
    console = Console(file=sys.stdout, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    with console.capture() as capture:
        console.print(table)
    # rich fills lines up with spaces, which a pipe would keep.
    lines = capture.get().splitlines() if not console.is_terminal else []
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in lines) or capture.get())
