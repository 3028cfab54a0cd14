"""`mine_dataset`: search a sample of a dataset, and count the evidence for its rules on every row.

    target ──► classes ──► all columns ──► sample, part of each row ──► search ──► candidates ──► counts of all rows

Memory depends on the sample and on the size of a batch, not on the number of rows: the class and the part of each row
are in files of one byte a row. The result depends on the rows and the settings alone, not on the number or the order of
the files.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from maabo_dist._util.text import format_count, format_names
from maabo_dist.contract.messages import TableSplit
from maabo_dist.contract.passes import SECONDS_PER_CELL
from maabo_dist.contract.result import ColumnInfo, SampleInfo
from maabo_dist.data.column_counts import ColumnCounts
from maabo_dist.data.datasets import Dataset
from maabo_dist.data.preparation import PreparedTable, choose_columns, prepare
from maabo_dist.data.readers import mask_texts
from maabo_dist.data.row_classes import RowClasses, read_classes
from maabo_dist.data.row_sample import RowSample, SamplePlan, draw_sample, plan_sample
from maabo_dist.data.split import held_out_share
from maabo_dist.errors import DatasetError, SettingsError
from maabo_dist.mining.local import Progress, mine
from maabo_dist.mining.result import MiningResult
from maabo_dist.rules.all_rows import AllRows, DatasetRows
from maabo_dist.settings import MiningSettings, TableSettings
from maabo_dist.study import Study

# Rows that are searched by default. Tables with no more rows are mined as a whole.
DEFAULT_SAMPLE = 200_000
MIN_SAMPLE = 1000


@dataclass(frozen=True, slots=True)
class PassProgress:
    """The progress of a pass over the rows of a dataset.

    Attributes
    ----------
    activity : str
        What the pass does.
    rows : int
        Rows read so far.
    planned : int
        Rows to read.
    """

    activity: str
    rows: int
    planned: int


PassReport = Callable[[PassProgress], None]


@dataclass(frozen=True)
class DatasetResult:
    """The rules of a dataset.

    Attributes
    ----------
    result : MiningResult
        The rules; their counts, verdicts and certificates are of all rows.
    table : PreparedTable
        The table that was searched: the sample, or all rows.
    sample : SampleInfo or None
        How the sample was drawn; None if all rows were searched.
    counter : AllRows or None
        Counts the rows of further rules; None if all rows were searched.
    columns : tuple of ColumnInfo or None
        What all rows have in each column; None if all rows were searched.
    """

    result: MiningResult
    table: PreparedTable
    sample: SampleInfo | None = None
    counter: AllRows | None = None
    columns: tuple[ColumnInfo, ...] | None = None


@dataclass(frozen=True)
class SampledDataset:
    """A dataset of which a sample is drawn. Its files of a byte a row exist while `open_sample` is open."""

    table: PreparedTable
    rows: DatasetRows
    plan: SamplePlan
    info: SampleInfo
    # What all rows have in each column.
    columns: tuple[ColumnInfo, ...]


def mine_dataset(
    source: Any,
    table: TableSettings,
    settings: MiningSettings | None = None,
    *,
    sample: int | None = DEFAULT_SAMPLE,
    jobs: int = 1,
    progress: Callable[[Progress], bool | None] | None = None,
    report: PassReport = lambda _progress: None,
) -> DatasetResult:
    """Mine the rules of a table that may be larger than memory.

    Parameters
    ----------
    source
        A directory, a glob, a URL, a file or a list of files (Parquet or CSV), a `pyarrow.dataset` or table, a pandas
        or Polars DataFrame, or a Polars LazyFrame.
    table : TableSettings
        The target, and the columns to use.
    settings : MiningSettings, optional
        The parameters of the method.
    sample : int or None, default=200000
        Rows to search if the table has more. None searches all, in memory.
    jobs : int, default=1
        Threads that grow trees and count rows. The rules do not depend on it.
    progress : callable, optional
        Called with the progress of the search; see `mine`.
    report : callable, optional
        Called with a `PassProgress` while rows are read.

    Returns
    -------
    DatasetResult
        The rules, with evidence of all rows, and the sample.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({f"x{index}": rng.normal(size=20_000).round(2) for index in range(5)})
    >>> frame["y"] = np.where((frame["x0"] > 1) & (rng.random(20_000) < 0.9), "high", "low")
    >>> mined = mine_dataset(frame, TableSettings(target="y"), MiningSettings(trees=10), sample=5_000)
    >>> best = next(rule for rule in mined.result.rules if mined.result.classes[rule.label] == "high")
    >>> [condition.feature for condition in best.conditions], sum(mined.result.rows.values())
    (['x0'], 20000)
    """
    mining = settings or MiningSettings()
    dataset = Dataset.open(source, na_values=table.na_values)
    if sample is None or dataset.rows <= sample:
        prepared = prepare(mask_texts(dataset.read_frame(), table.na_values), table)
        result = mine(prepared.columns, mining, jobs=jobs, progress=progress)
        return DatasetResult(replace(result, notes=(*prepared.notes, *result.notes)), prepared)
    with open_sample(dataset, table, mining, sample, report) as sampled:
        return mine_sample(sampled, mining, jobs=jobs, progress=progress, report=report)


def check_supported(table: TableSettings, mining: MiningSettings) -> str | None:
    """Return the first option that needs all rows in memory; None if a sample can be searched."""
    options = {
        "--group": table.group,
        "--time": table.time,
        "--weight": table.weight,
        "--impute drop": table.impute == "drop",
        "--stratify": mining.stratify,
        "--preset paper": not mining.publishes_findings,
    }
    return next((option for option, given in options.items() if given), None)


def check_sample(table: TableSettings, mining: MiningSettings, size: int) -> None:
    """Raise an error if a sample of this size cannot be searched with these settings."""
    if option := check_supported(table, mining):
        raise SettingsError(f"{option} needs all rows in memory, and a sample is searched. Add --sample all.")
    if size < MIN_SAMPLE:
        raise SettingsError(f"--sample {size}: at least {MIN_SAMPLE:,} rows are needed. Give a larger number, or all.")


def choose_target(dataset: Dataset, table: TableSettings) -> tuple[TableSettings, list[str]]:
    """Return the settings with the target that is the default if none is given, and the columns to read."""
    target, columns = choose_columns(list(dataset.names), table)
    return table.model_copy(update={"target": target}), columns


def plan_of(totals: npt.NDArray[np.int64], rows: int, size: int, mining: MiningSettings) -> SamplePlan:
    """Return how about `size` of the rows are drawn; `totals` are those of each class."""
    return plan_sample(
        totals,
        size,
        seed=mining.seed,
        split_seed=TableSplit.of(mining).seed,
        holdout=held_out_share(mining.holdout, rows),
        test_size=mining.test_size,
    )


@contextmanager
def open_sample(
    dataset: Dataset,
    table: TableSettings,
    mining: MiningSettings,
    size: int = DEFAULT_SAMPLE,
    report: PassReport = lambda _progress: None,
) -> Iterator[SampledDataset]:
    """Draw a sample of about `size` rows by two passes, the first over the target alone, and prepare it."""
    check_sample(table, mining, size)
    table, columns = choose_target(dataset, table)

    def reporter(activity: str) -> Callable[[int], None]:
        return lambda rows: report(PassProgress(activity, rows, dataset.rows))

    with TemporaryDirectory(prefix="maabo-") as folder:
        classes = read_classes(dataset, table, Path(folder), reporter("reading the target"))
        plan = plan_of(classes.totals, dataset.rows, size, mining)
        sample, parts = draw_sample(dataset, columns, classes, plan, Path(folder), reporter("drawing the sample"))
        dataset.check_unchanged()
        prepared = prepare_sample(sample, classes, table)
        rows = DatasetRows(
            dataset, classes.classes, classes.labels, parts, sample.totals, prepared.encoder, table.na_values
        )
        info = describe_sample(dataset, plan, sample, classes)
        yield SampledDataset(prepared, rows, plan, info, describe_columns(sample.columns))


def mine_sample(
    sampled: SampledDataset,
    mining: MiningSettings,
    *,
    jobs: int = 1,
    progress: Callable[[Progress], bool | None] | None = None,
    report: PassReport = lambda _progress: None,
    **options: Any,
) -> DatasetResult:
    """Search the sample, and count what it finds on all rows; `options` are more arguments of `mine`."""
    counters: list[AllRows] = []

    def count_with(study: Study) -> AllRows:
        def counted(rows: int, planned: int) -> None:
            report(PassProgress("counting all rows", rows, planned))

        counters.append(AllRows(sampled.rows, study.table_columns.features, jobs, counted))
        return counters[0]

    result = mine(sampled.table.columns, mining, jobs=jobs, progress=progress, count_with=count_with, **options)
    notes = sample_notes(sampled.info, sampled.plan, sampled.rows.table.rows)
    result = replace(result, notes=(*notes, *sampled.table.notes, *result.notes))
    return DatasetResult(result, sampled.table, sampled.info, counters[0], sampled.columns)


def prepare_sample(sample: RowSample, classes: RowClasses, settings: TableSettings) -> PreparedTable:
    """Prepare the sample with the classes of the whole table."""
    target = settings.target or ""
    kind = pd.CategoricalDtype(list(classes.classes), ordered=True)
    frame = mask_texts(sample.frame, settings.na_values).assign(
        **{target: pd.Categorical.from_codes(sample.labels, dtype=kind)}
    )
    # The target has its classes, and excluded columns were not read.
    plain = settings.model_copy(update={"target_above": None, "target_quantiles": None, "exclude": ()})
    if len(frame) < MIN_SAMPLE // 2:
        raise DatasetError(f"Only {format_count(len(frame), 'row')} were drawn, too few to search. Use --sample all.")
    prepared = prepare(frame, plain)
    columns = replace(
        prepared.columns,
        labels=sample.labels,
        classes=classes.classes,
        target=classes.text,
        parts=sample.parts,
    )
    notes = (*classes.notes, *(f"In the sample: {note}" for note in prepared.notes))
    return replace(prepared, columns=columns, notes=notes)


def describe_sample(dataset: Dataset, plan: SamplePlan, sample: RowSample, classes: RowClasses) -> SampleInfo:
    """Describe a sample for users."""
    return SampleInfo(
        rows=len(sample.frame),
        of=int(sample.totals.sum()),
        rates=dict(zip(classes.classes, plan.rates, strict=True)),
        files=len(dataset.files),
        checksum=f"{sample.checksum:016x}",
    )


def describe_columns(columns: Mapping[str, ColumnCounts]) -> tuple[ColumnInfo, ...]:
    """Describe columns by all rows, in the order of their names."""
    return tuple(
        ColumnInfo(
            name=name,
            missing=counts.missing,
            smallest=counts.smallest,
            largest=counts.largest,
            distinct=None if counts.levels is None else len(counts.levels),
            levels=counts.frequent(),
        )
        for name, counts in sorted(columns.items())
    )


def sample_notes(info: SampleInfo, plan: SamplePlan, rows: int) -> Iterator[str]:
    """Yield sentences on a sample of a table with so many rows."""
    how = "a random sample"
    if not plan.is_uniform:
        largest = max(plan.rates)
        names = format_names([name for name, rate in info.rates.items() if rate == largest])
        how = f"a sample with {'all' if largest == 1 else f'{largest:.0%} of the'} mined rows of class {names}"
    yield (
        f"Searched {how} ({info.rows:,} of {info.of:,} rows). Counts, precision, lift, verdicts and certificates are "
        "of all rows; which rows findings share was estimated from the sample to choose them."
    )
    if rows > info.of:
        yield f"Left out {format_count(rows - info.of, 'row')} of {rows:,} without a class."
    if plan.numbered < 1:
        share = f"{plan.numbered:.0%}"
        yield f"Identical rows are numbered for {share} of the distinct rows, from which the sample is drawn."


def estimate_seconds(rows: int, columns: int) -> float:
    """Return the time of all passes on one core, beside the search: reading, hashing and counting each cell."""
    return rows * columns * SECONDS_PER_CELL


def estimate_memory(sample: int, columns: int) -> int:
    """Return the bytes that mining a dataset takes at most, whatever its number of rows."""
    # Libraries and kernels; the table of row hashes; batches; and the sample, prepared, in order and in bits.
    return (300 << 20) + (200 << 20) + (150 << 20) + sample * columns * 48
