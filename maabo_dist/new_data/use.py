"""`apply_rules` and `check_rules`: the rules of a document on a new table, which is read in parts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa

from maabo_dist._util.text import format_count, format_names, suggestion
from maabo_dist._version import __version__
from maabo_dist.contract.checks import CheckReport, CheckStatus
from maabo_dist.contract.result import ResultDocument
from maabo_dist.data.batches import Batches, TableSource, open_batches
from maabo_dist.errors import DatasetError, SettingsError
from maabo_dist.new_data.applying import OUTCOME, RuleApplier
from maabo_dist.new_data.judging import judge_rules
from maabo_dist.new_data.labels import NO_CLASS, ClassReader, target_column
from maabo_dist.new_data.output import OutputFormat, write_tables
from maabo_dist.rules.frame_matching import FrameMatcher


class HasDocument(Protocol):
    """A fitted `RuleMiner`."""

    def document(self) -> ResultDocument:
        """Return the result document."""
        ...


# A document, its JSON values, the file or folder that holds it, or a fitted RuleMiner.
RulesSource: TypeAlias = ResultDocument | Mapping[str, Any] | str | Path | HasDocument
# Called with the number of rows so far.
Progress: TypeAlias = Callable[[int], None]

# The number of each row, from 1; only in files, since a DataFrame has an index.
ROW = "row"


@dataclass(frozen=True, slots=True)
class ApplySummary:
    """What was written by `apply_rules_to_file`.

    Attributes
    ----------
    rows : int
        Rows of the table.
    matched : int
        Rows that at least one rule matches.
    matches : dict of str to int
        Rows that each rule matches, by its id.
    notes : tuple of str
        Remarks for the reader.
    """

    rows: int
    matched: int
    matches: dict[str, int]
    notes: tuple[str, ...]


def apply_rules(rules: RulesSource, table: TableSource, *, keep: Sequence[str] = ()) -> pd.DataFrame:
    """Find the rules that match each row of a table, the predicted class and the reason.

    Parameters
    ----------
    rules
        A result document, its JSON values, the path of a `rules.json` or of the folder of a run, or a fitted
        `RuleMiner`.
    table
        A DataFrame of pandas or Polars, an Arrow table or dataset, or the path of a file; `-` is standard input. Also a
        directory, glob or URL of Parquet or CSV files.
    keep
        Columns of the table to copy to the result.

    Returns
    -------
    pandas.DataFrame
        A row for each row of the table, under the same index: the columns to keep; `matches`, the ids of all rules that
        match; `decided_by`, the id of the one with the greatest lower limit of its precision; `predicted`, the class
        that it predicts; `reason`, its text. The last three are missing where no rule decides.

    Raises
    ------
    DatasetError
        If the table lacks columns of the rules, or they hold something else.

    Examples
    --------
    >>> from maabo_dist import RuleMiner, apply_rules
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> miner = RuleMiner(trees=50, min_samples=20).fit(X, y)
    >>> apply_rules(miner, X.head(2))[["decided_by", "predicted"]]
      decided_by predicted
    0         R2         0
    1         R2         0
    """
    document = load_rules(rules)
    applier = RuleApplier(document)
    with open_batches(table, na_values=_na_values(document)) as batches:
        parts = [part.drop_columns([ROW]) for part in _apply(applier, batches, keep, None)]
        applier.finish()
    result: pd.DataFrame = pa.concat_tables(parts, promote_options="permissive").to_pandas()
    return result.set_index(table.index) if isinstance(table, pd.DataFrame) else result


def apply_rules_to_file(
    rules: RulesSource,
    table: TableSource,
    file: BinaryIO,
    *,
    form: OutputFormat = "parquet",
    keep: Sequence[str] = (),
    progress: Progress | None = None,
) -> ApplySummary:
    """As `apply_rules`, but write the result to a file, part by part, so that a table of any size can be read.

    Parameters
    ----------
    rules, table, keep
        As for `apply_rules`.
    file
        A file that is open for writing bytes.
    form
        `parquet` or `csv`. The file also has a column `row`, which counts from 1. In CSV, `matches` has spaces between
        the ids.
    progress
        Called with the number of rows so far, after each part.

    Returns
    -------
    ApplySummary
        Rows, rows that match, and remarks.
    """
    document = load_rules(rules)
    applier = RuleApplier(document)
    with open_batches(table, na_values=_na_values(document)) as batches:
        write_tables(_apply(applier, batches, keep, progress), file, form)
        notes = (*batches.notes, *applier.finish())
    matches = {rule.id: int(rows) for rule, rows in zip(document.rules, applier.matches, strict=True)}
    return ApplySummary(applier.rows, applier.matched, matches, notes)


def check_rules(
    rules: RulesSource,
    table: TableSource,
    *,
    target: str | None = None,
    significance: float = 0.05,
    name: str | None = None,
    progress: Progress | None = None,
) -> CheckReport:
    """Measure the rules on a new labelled table, and tell which still hold, which drifted and which failed.

    Parameters
    ----------
    rules
        As for `apply_rules`.
    table
        As for `apply_rules`, with the target as well.
    target
        The column that holds the classes; by default the one of the document. A number is cut where the mined one was.
    significance
        The level of the tests. They are corrected for the number of rules.
    name
        What the report calls the table.
    progress
        Called with the number of rows so far, after each part.

    Returns
    -------
    CheckReport
        Counts, intervals, tests and the status of each rule.

    Raises
    ------
    DatasetError
        If the table lacks columns of the rules or the target, or has other classes.

    Examples
    --------
    >>> from maabo_dist import RuleMiner, check_rules
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> miner = RuleMiner(trees=50, min_samples=20).fit(X, y)
    >>> report = check_rules(miner, X.assign(cultivar=y), target="cultivar")
    >>> [(rule.id, rule.status.value) for rule in report.rules]
    [('R1', 'holds'), ('R2', 'holds'), ('R3', 'holds')]
    """
    if not 0 < significance < 1:
        raise SettingsError(f"The significance {significance:g} is not between 0 and 1. Give a level such as 0.05.")
    document = load_rules(rules)
    reader = ClassReader(document, target_column(document, target))
    matcher = FrameMatcher([rule.premise for rule in document.rules])
    with open_batches(table, na_values=_na_values(document)) as batches:
        counts, totals, unlabelled = _count(matcher, reader, batches, len(document.dataset.classes), progress)
        notes = (*batches.notes, *matcher.finish(), *_notes(document, unlabelled))
    if not totals.sum():
        raise DatasetError(f"No row has a class in column {reader.target!r}. Name another --target.", field="target")
    classes, effect = document.dataset.classes, document.dataset.design_effect or 1.0
    checks = judge_rules(document.rules, classes, counts, totals, significance=significance, effect=effect)
    statuses = [check.status for check in checks]
    return CheckReport(
        version=__version__,
        digest=document.digest,
        table=name or _name(table),
        target=reader.target,
        rows=int(totals.sum()),
        unlabelled=unlabelled,
        significance=significance,
        class_rows=dict(zip(classes, totals.tolist(), strict=True)),
        statuses={status: statuses.count(status) for status in CheckStatus},
        notes=notes,
        rules=checks,
    )


def load_rules(rules: RulesSource) -> ResultDocument:
    """Return the result document."""
    if isinstance(rules, ResultDocument):
        return rules
    if isinstance(rules, Mapping):
        return ResultDocument.parse(rules)
    if not isinstance(rules, str | Path):
        return rules.document()
    from maabo_dist.report.run_folder import read_run  # noqa: PLC0415 - loads the figures of reports

    return read_run(Path(rules))[0]


def _apply(applier: RuleApplier, batches: Batches, keep: Sequence[str], progress: Progress | None) -> Iterator[Any]:
    """Yield the parts of the outcome: the row, the columns to keep, and the columns of `OUTCOME`."""
    applier.check(batches.names)
    _check_kept(keep, batches.names)
    for batch in batches.read(list(dict.fromkeys([*applier.columns, *keep]))):
        first = applier.rows + 1
        outcome, kept = applier.apply(batch.frame), batch.arrow(keep) if keep else None
        numbers = pa.array(np.arange(first, applier.rows + 1))
        arrays = [numbers, *(kept.columns if kept is not None else []), *outcome.columns]
        yield pa.table(arrays, names=[ROW, *keep, *OUTCOME])
        if progress is not None:
            progress(applier.rows)


def _check_kept(keep: Sequence[str], names: Sequence[str]) -> None:
    for name in keep:
        if name not in names:
            raise SettingsError(
                f"--keep {name!r}: the table has no such column. {suggestion(name, names)}", field="keep"
            )
    clashes = [name for name in keep if name in {ROW, *OUTCOME}]
    if clashes:
        raise SettingsError(
            f"--keep {format_names(clashes)}: the result has a column of this name. Rename it in the table.",
            field="keep",
        )
    if len(set(keep)) < len(keep):
        raise SettingsError("--keep names a column twice. Name each column once.", field="keep")


def _count(
    matcher: FrameMatcher, reader: ClassReader, batches: Batches, classes: int, progress: Progress | None
) -> tuple[Any, Any, int]:
    """Return the rows of each class that a rule covers (rules, C), all rows of each class, and those without one."""
    matcher.check(batches.names)
    reader.check(batches.names)
    counts, totals, unlabelled = None, np.zeros(classes + 1, np.int64), 0
    for batch in batches.read(list(dict.fromkeys([*matcher.uses, reader.target]))):
        labels = reader.read(batch.frame[reader.target])
        labelled = labels != NO_CLASS
        covered = matcher.match(batch.frame)[:, labelled]
        # A further class is for texts that the document does not know; `finish` raises an error about them.
        part = np.array([np.bincount(labels[labelled][mask], minlength=classes + 1) for mask in covered], np.int64)
        counts = part if counts is None else counts + part
        totals += np.bincount(labels[labelled], minlength=classes + 1)
        unlabelled += int((~labelled).sum())
        if progress is not None:
            progress(int(totals.sum()) + unlabelled)
    reader.finish()
    shape = (-1, classes + 1)
    return (
        (np.zeros((0, classes + 1)) if counts is None else counts.reshape(shape))[:, :classes],
        totals[:-1],
        unlabelled,
    )


def _notes(document: ResultDocument, unlabelled: int) -> list[str]:
    notes = [f"Left out {format_count(unlabelled, 'row')} without a class."] if unlabelled else []
    if (document.dataset.settings or {}).get("weight"):
        notes.append("The rules were mined with weights. Here, each row counts once.")
    if document.dataset.design_effect:
        notes.append(
            f"In intervals and tests, {document.dataset.design_effect:.3g} rows are worth one, as in the document."
        )
    return notes


def _na_values(document: ResultDocument) -> tuple[str, ...]:
    """The texts that stood for missing cells when the rules were mined."""
    return tuple((document.dataset.settings or {}).get("na_values") or ())


def _name(table: TableSource) -> str:
    if not isinstance(table, str | Path):
        return "table"
    return "standard input" if str(table) == "-" else Path(table).name
