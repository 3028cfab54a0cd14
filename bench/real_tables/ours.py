"""Our method: `maabo mine` with its defaults on a CSV of the training rows, in this process.

The rows that a rule covers are found with the pandas export, as a user would.
"""

import ast
import hashlib
import io
import os
import re
import sys
import traceback
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
import pandas as pd

from bench.quality.peer_client import ROOT
from bench.real_tables.draws import ABOVE, AT_MOST, Draw, class_name
from bench.real_tables.registry import RealTable
from bench.real_tables.scoring import FoundRule
from maabo_dist.cli import maabo
from maabo_dist.console import run_command
from maabo_dist.contract.result import ResultDocument
from maabo_dist.report.exports import to_pandas
from maabo_dist.warm import warm, warm_for_large_tables


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a method gave for a draw."""

    rules: Sequence[FoundRule] = ()
    seconds: float | None = None
    cpu: float | None = None
    failure: str = ""
    """`refused`, `crashed`, `timeout` or `failed`; empty if it ran."""
    message: str = ""
    details: dict[str, object] = field(default_factory=dict)


def source_version() -> str:
    """A short hash of the library's source: records of other versions are kept apart."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "maabo_dist").rglob("*.py")):
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:10]


def mine_with_ours(draw: Draw, options: Sequence[str] = ()) -> Outcome:
    """Run the plain command on the training rows, and find the rows of its rules."""
    document, outcome = mine_frame(draw.frame.iloc[draw.train], draw.table, options)
    if document is None:
        return outcome
    try:
        rules = _found_rules(document, draw)
    except Exception as error:  # noqa: BLE001 (a rule that cannot be applied is a result)
        return Outcome(failure="crashed", message=f"its pandas export: {type(error).__name__}: {error}")
    stated = [sum(support.n for support in rule.supports.values()) for rule in document.rules]
    differing = sum(rule.mask[draw.train].sum() != n for rule, n in zip(rules, stated, strict=True))
    details = {**outcome.details, "differing_exports": int(differing)}
    return Outcome(rules, outcome.seconds, outcome.cpu, details=details)


def mine_frame(
    frame: pd.DataFrame, table: RealTable, options: Sequence[str] = ()
) -> tuple[ResultDocument | None, Outcome]:
    """Run the command on a CSV of a frame; without a document, the outcome says why."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{table.name}.csv"
        frame.to_csv(path, index=False)
        arguments = ["mine", str(path), "--target", table.target, "--format", "json", "--jobs", "1", *options]
        start, used = perf_counter(), _cpu_seconds()
        code, printed, notes = _run_maabo(arguments)
        seconds, cpu = perf_counter() - start, _cpu_seconds() - used
    if code != 0:
        kind = "refused" if code == 2 else "crashed"
        return None, Outcome((), seconds, cpu, kind, _shorten(notes).replace(str(path), path.name))
    document = ResultDocument.parse_text(printed)
    details: dict[str, object] = {"digest": document.digest[:16], "notes": list(document.notes)}
    return document, Outcome((), seconds, cpu, details=details)


def warm_up() -> None:
    """Import and compile everything before the first measured run."""
    warm()
    warm_for_large_tables()
    _run_maabo(["mine", "--dataset", "diabetes", "--format", "json", "--jobs", "1"])


def _run_maabo(arguments: list[str]) -> tuple[int, str, str]:
    """The exit code, the output and the messages of the command."""
    printed, notes = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    before = sys.argv
    sys.argv = ["maabo", *arguments]
    try:
        with redirect_stdout(printed), redirect_stderr(notes):
            code = run_command(maabo, "maabo")
    except Exception:  # noqa: BLE001 (a crash is a result)
        return 1, "", traceback.format_exc().strip().splitlines()[-1]
    finally:
        sys.argv = before
    return code, _text_of(printed), _text_of(notes)


def _text_of(stream: io.TextIOWrapper) -> str:
    stream.flush()
    return stream.buffer.getvalue().decode()


def _found_rules(document: ResultDocument, draw: Draw) -> list[FoundRule]:
    masks = masks_of_export(to_pandas(document), draw.cells)
    return [
        FoundRule(
            _class_of(rule.label, draw.table),
            rule.text,
            masks[rule.id],
            tentative=rule.certificate is not None and rule.certificate.tentative,
        )
        for rule in document.rules
    ]


def masks_of_export(code: str, frame: pd.DataFrame) -> dict[str, np.ndarray]:
    """The rows of each rule: the assignments `R1 = df[…]` of the pandas export, run on row numbers."""
    numbered = frame.reset_index(drop=True)
    names = [node.targets[0].id for node in ast.parse(code).body if isinstance(node, ast.Assign)]
    space: dict[str, object] = {"df": numbered, "pd": pd, "np": np}
    exec(code, space)
    masks = {}
    for name in names:
        if re.fullmatch(r"R[1-9][0-9]*", name):
            masks[name] = np.zeros(len(numbered), bool)
            masks[name][space[name].index.to_numpy()] = True
    return masks


def _class_of(label: str, table: RealTable) -> str:
    """The class in the words of the draw: a numeric target is above its median or not."""
    if not table.numeric:
        return class_name(label)
    return ABOVE if re.search(r">|above", label.removeprefix(table.target)) else AT_MOST


def _shorten(notes: str) -> str:
    lines = [line.removeprefix("maabo: ") for line in notes.strip().splitlines() if line.strip()]
    return " ".join(lines)[-600:]


def _cpu_seconds() -> float:
    return sum(os.times()[:4])
