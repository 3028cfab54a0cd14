"""The files of an experiment: raw results as CSV, the tables as Markdown. Each is written whole or not at all."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from maabo_dist._util.files import replacing
from maabo_dist.errors import SettingsError
from maabo_dist.research.paper.case import Findings, Row
from maabo_dist.research.paper.shown import Comparison


def file_names(experiment: str, table: str | None, names: Iterable[str]) -> dict[str, str]:
    """What each of `names` is called in the folder: with the table's name where it is not the experiment's own."""
    suffix = "" if table is None else f"-{table}"
    return {name: f"{experiment}{suffix}{name.removeprefix(experiment)}" for name in names}


def csv_text(rows: Sequence[Row]) -> str:
    """A header and a line for each row."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def markdown(comparisons: Sequence[Comparison], notes: Sequence[str] = ()) -> str:
    """The tables, and what should be known of all of them."""
    parts = [_table(each) for each in comparisons]
    return "\n\n".join([*parts, *notes]) + "\n"


def write_results(
    out: Path, experiment: str, table: str | None, findings: Findings, text: str, picture: bytes | None
) -> list[Path]:
    """All files of an experiment; their paths."""
    named = file_names(experiment, table, findings.rows)
    files = {f"{named[name]}.csv": csv_text(rows).encode() for name, rows in findings.rows.items()}
    (stem,) = file_names(experiment, table, [experiment]).values()
    files[f"{stem}.md"] = text.encode()
    if picture is not None:
        files[f"{stem}.png"] = picture
    for name, content in files.items():
        _write(out / name, content)
    return [out / name for name in files]


def _write(path: Path, content: bytes) -> None:
    try:
        with replacing(path) as file:
            file.write(content)
    except OSError as error:
        raise SettingsError(f"--out {str(path.parent)!r}: writing failed ({error.strerror}).") from error


def _table(comparison: Comparison) -> str:
    head, rows = comparison.head, comparison.rows
    lines = [f"**{comparison.title}**", "", _line(head), _line(["---"] * len(head)), *map(_line, rows)]
    return "\n".join([*lines, *(line for note in comparison.notes for line in ("", note))])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
