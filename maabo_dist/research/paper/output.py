"""The findings of an experiment as values, and how they are written: tables, plot panels, CSV and Markdown files."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, pstdev

from maabo_dist._util.files import atomic_write
from maabo_dist.errors import SettingsError

NOT_PRINTED = "not printed"  # stands where the paper shows a figure only as a point of a plot, or not at all
ERROR_SHARE = 0.5  # the paper's error bars are half a standard deviation

Row = dict[str, str | int | float | None]  # a line of a CSV file


@dataclass(frozen=True, slots=True)
class Comparison:
    """A table of our figures, with the paper's where it prints them."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Series:
    """Points with error bars."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    error: tuple[float, ...] = ()  # half the length of each error bar; empty for no error bars
    level: bool = False  # True for one value at all x, drawn as a horizontal line


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    bars: bool = False  # draw grouped bars instead of lines
    ticks: tuple[str, ...] = ()  # labels of the positions 0, 1, … on the x axis, where it has no numbers
    log: bool = False
    percent: bool = False


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that an experiment reports."""

    rows: dict[str, list[Row]]  # the raw results, by the name of their CSV file
    comparisons: tuple[Comparison, ...]
    panels: tuple[Panel, ...]

    def markdown(self, notes: Sequence[str] = ()) -> str:
        """The comparisons as Markdown tables, followed by notes on all of them."""
        return "\n\n".join([*map(_markdown_table, self.comparisons), *notes]) + "\n"

    def write(self, folder: Path, stem: str, experiment: str, text: str, plot: bytes | None) -> list[Path]:
        """Write CSV files, the Markdown `text` and the plot, and return their paths.

        The names of the CSV files begin with that of the experiment, which `stem` replaces.
        """
        files = {f"{stem}{name.removeprefix(experiment)}.csv": _csv(rows) for name, rows in self.rows.items()}
        files[f"{stem}.md"] = text.encode()
        if plot is not None:
            files[f"{stem}.png"] = plot
        try:
            for name, content in files.items():
                with atomic_write(folder / name) as file:
                    file.write(content)
        except OSError as error:
            raise SettingsError(f"--out {str(folder)!r}: writing failed ({error.strerror}).") from error
        return [folder / name for name in files]


def mean(values: Sequence[float]) -> float:
    """The mean; NaN if there are no values."""
    return fmean(values) if values else float("nan")


def mean_error(values: Sequence[float]) -> float:
    """Half the length of an error bar."""
    return ERROR_SHARE * pstdev(values) if values else 0.0


def format_mean(values: Sequence[float]) -> str:
    """`6.42 ± 0.81`: the mean and half a standard deviation, as in the paper's error bars."""
    return f"{mean(values):.2f} ± {mean_error(values):.2f}" if values else "–"


def format_percent(values: Sequence[float]) -> str:
    """The mean as `47 %`."""
    return f"{100 * mean(values):.0f} %" if values else "–"


def mean_series(name: str, points: Mapping[float, Sequence[float]]) -> Series:
    """Means with error bars, from all values at each x; an x without values is left out."""
    x = [each for each, values in sorted(points.items()) if values]
    y, errors = (tuple(measure(points[each]) for each in x) for measure in (mean, mean_error))
    return Series(name, tuple(x), y, errors)


def _csv(rows: Sequence[Row]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _markdown_table(comparison: Comparison) -> str:
    ruler = ["---"] * len(comparison.head)
    lines = [f"**{comparison.title}**", "", *map(_markdown_row, (comparison.head, ruler, *comparison.rows))]
    return "\n".join([*lines, *(line for note in comparison.notes for line in ("", note))])


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
