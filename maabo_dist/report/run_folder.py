"""The folder of a run: rules.json, rules.csv, trees.bin, and run.json, which says how to repeat it.

With a report, figures.json is stored too, from which the figures can be drawn again.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maabo_dist._util.files import atomic_write
from maabo_dist.contract.result import ResultDocument
from maabo_dist.errors import FormatError, SettingsError
from maabo_dist.report.figures import FORMAT as FIGURES_FORMAT
from maabo_dist.report.figures import FigureData, dump_figures, versions
from maabo_dist.report.tables import to_csv
from maabo_dist.trees.forest import Forest

FORMAT = "maabo-run/1"
RULES, FIGURES = "rules.json", "figures.json"


def make_folder(path: Path) -> None:
    """Make the folder, or say why it cannot be one. Called before the search, which may take hours."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise SettingsError(f"--out {str(path)!r}: there is a file in its place. Give a directory.") from None
    except OSError as error:
        raise SettingsError(
            f"--out {str(path)!r}: it cannot be created ({error.strerror}). Choose another directory."
        ) from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise SettingsError(f"--out {str(path)!r}: permission denied. Choose another directory.")


def write_folder(
    path: Path,
    document: ResultDocument,
    forest: Forest | None,
    run: Mapping[str, Any],
    figures: FigureData | None = None,
) -> None:
    """Write the files, each atomically; `run` is what only the caller knows, such as the start time."""
    try:
        _write(path / RULES, document.to_text())
        _write(path / "rules.csv", to_csv(document))
        if forest is not None:
            forest.save(path / "trees.bin")
        if figures is not None:
            _write(path / FIGURES, dump_figures(figures))
        # Last: a folder with a run.json is complete.
        _write(path / "run.json", json.dumps(run_record(document, run), indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise SettingsError(f"--out {str(path)!r}: writing failed ({error.strerror}).") from error


def read_run(path: Path) -> tuple[ResultDocument, FigureData | None]:
    """Return the document of a run, by its folder or its file, and the figure data in the same folder, if any."""
    file = path / RULES if path.is_dir() else path
    document = ResultDocument.parse(_read(file), repr(str(file)))
    figures = file.with_name(FIGURES)
    return document, _read_figures(figures) if figures.is_file() else None


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FormatError(f"{str(path)!r} cannot be read ({error.strerror}). Give a run's folder or file.") from error
    except ValueError as error:
        raise FormatError(f"{str(path)!r} is not JSON in UTF-8. Give a run's folder, or its {RULES}.") from error


def _read_figures(path: Path) -> FigureData:
    figures = _read(path)
    format_ = figures.get("format") if isinstance(figures, dict) else None
    if not isinstance(figures, dict) or format_ != FIGURES_FORMAT:
        raise FormatError(f"{str(path)!r} has the format {format_!r}; {FIGURES_FORMAT!r} is required.")
    return figures


def run_record(document: ResultDocument, run: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is needed to repeat the run and to check that the repetition has the same result."""
    dataset = document.dataset
    return {
        "format": FORMAT,
        **run,
        "versions": versions(),
        "dataset": {"name": dataset.name, "fingerprint": dataset.fingerprint},
        "table_settings": dataset.settings,
        "settings": document.settings,
        "seed": document.settings["seed"],
        "digest": document.digest,
        "seconds": document.search.seconds,
        "stopped": document.search.stopped,
    }


def _write(path: Path, text: str) -> None:
    with atomic_write(path) as file:
        file.write(text.encode())
