"""`maabo mine` on tables that are larger than a sample: a directory, a glob, a URL, or a file with many rows."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from maabo_dist.cli.options import Source, section_option
from maabo_dist.cli.output import Output
from maabo_dist.cli.progress import Display, Snapshot, graceful_interrupt, with_interrupt
from maabo_dist.console import format_duration, print_note
from maabo_dist.contract.result import ResultDocument
from maabo_dist.errors import DatasetError, SettingsError
from maabo_dist.settings import TableSettings

if TYPE_CHECKING:
    from maabo_dist.data.datasets import Dataset
    from maabo_dist.mining.dataset import PassProgress
    from maabo_dist.mining.result import MiningResult
    from maabo_dist.report.figures import FigureData

# Text files of more bytes than this are read in blocks.
LARGE_TEXT = 256 << 20

sample_option = section_option(
    "--sample",
    section="Search",
    metavar="N|all",
    help="Rows to search if the table has more; the evidence is counted on all rows. all searches all, in memory.  "
    "[default: 200000]",
)


class LargeTable(NamedTuple):
    """A dataset with more rows than are searched."""

    dataset: "Dataset"
    sample: int


def open_large(source: Source, sample: str | None) -> LargeTable | None:
    """Open the table if a sample of it is to be searched; None if it is searched as a whole.

    A single file is searched as a whole also if other options need all rows; of a directory, they are refused later.
    """
    from maabo_dist.data.dataset_files import is_dataset  # noqa: PLC0415 - pandas and numba take half a second
    from maabo_dist.mining.dataset import DEFAULT_SAMPLE, check_supported  # noqa: PLC0415

    size = _parse_sample(sample, DEFAULT_SAMPLE)
    if size is None or source.data is None:
        return None
    settings = TableSettings.parse(source.table)
    needs_all = check_supported(settings, source.mining) is not None or bool(source.repeating.repeats)
    many_files = is_dataset(source.data)
    if not many_files and needs_all and sample is None:
        return None
    if source.repeating.repeats:
        raise SettingsError("--repeats mines parts of the rows, which are in memory for that. Add --sample all.")
    dataset = _open(source.data, settings, many_files=many_files)
    return LargeTable(dataset, size) if dataset is not None and dataset.rows > size else None


def _parse_sample(text: str | None, default: int) -> int | None:
    """Return the number of rows; None for all."""
    if text == "all":
        return None
    with suppress(ValueError):
        size = default if text is None else int(text)
        if size > 0:
            return size
    raise SettingsError(f"--sample {text}: give a number of rows, or all.")


def _open(data: str, settings: TableSettings, *, many_files: bool) -> "Dataset | None":
    """Open files, or one file that can be read in parts; None for others, which are read as a whole."""
    from maabo_dist.data.dataset_files import PARQUET, TEXT  # noqa: PLC0415
    from maabo_dist.data.datasets import Dataset  # noqa: PLC0415

    is_file = Path(data).is_file()
    is_large = is_file and data.lower().endswith(TEXT) and Path(data).stat().st_size > LARGE_TEXT
    if many_files or is_large:
        return Dataset.open(data, na_values=settings.na_values)
    if is_file and data.lower().endswith(PARQUET):
        with suppress(DatasetError):  # the reader of single files says what is wrong
            return Dataset.open(data)
    return None


def run_dataset(
    source: Source, large: LargeTable, jobs: int, output: Output, display: Display
) -> "tuple[ResultDocument, FigureData | None, MiningResult]":
    """Draw a sample, search it, and count all rows."""
    from maabo_dist.mining.dataset import mine_sample, open_sample  # noqa: PLC0415 - see open_large
    from maabo_dist.report.coverage import with_counted_coverage  # noqa: PLC0415
    from maabo_dist.report.document import result_document  # noqa: PLC0415
    from maabo_dist.report.figures import figures_of  # noqa: PLC0415

    if output.explains:
        for line in explain_large(large):
            print_note(line)
    settings = TableSettings.parse(source.table)
    report = pass_reporter(display)
    with (
        graceful_interrupt(display),
        open_sample(large.dataset, settings, source.mining, large.sample, report) as sampled,
    ):
        output.explain(source.mining, sampled.table.columns)
        display.set_activity("")
        display.start_search()
        mined = mine_sample(
            sampled,
            source.mining,
            jobs=jobs,
            progress=display.report,
            report=report,
            keep_trees=output.out is not None,
            keep_records=output.report is not None,
        )
        result = with_interrupt(mined.result)
        name = {"name": source.name, "settings": settings.model_dump(mode="json")}
        document = result_document(result, name | {"sample": mined.sample, "columns": mined.columns})
        document = document if mined.counter is None else with_counted_coverage(document, mined.counter)
    figures = None if output.report is None else figures_of(result, mined.table.columns)
    return document, figures, result


def open_directory(source: Source, sample: str | None) -> LargeTable | None:
    """Open a directory whose sample a cluster is to search; None for tables that are sent to it as a whole."""
    from maabo_dist.data.dataset_files import is_dataset  # noqa: PLC0415 - see open_large
    from maabo_dist.mining.dataset import DEFAULT_SAMPLE, check_sample  # noqa: PLC0415

    size = _parse_sample(sample, DEFAULT_SAMPLE)
    if size is None or source.data is None or not is_dataset(source.data):
        if sample not in {None, "all"}:
            raise SettingsError(f"--sample {sample}: a cluster draws samples of directories. Use all, or maabo mine.")
        return None
    settings = TableSettings.parse(source.table)
    dataset = _open(source.data, settings, many_files=True)
    if dataset is None or dataset.rows <= size:
        return None
    if source.repeating.repeats:
        raise SettingsError("--repeats mines parts of the rows, which are in memory for that. Add --sample all.")
    check_sample(settings, source.mining, size)
    return LargeTable(dataset, size)


def pass_reporter(display: Display) -> "Callable[[PassProgress], None]":
    """Return a function that shows the progress of passes.

    It raises KeyboardInterrupt once Ctrl-C was pressed during a pass. After a search that was stopped so, its rules are
    counted all the same.
    """
    started, stopped_before = monotonic(), False

    def report(progress: "PassProgress") -> None:
        nonlocal stopped_before
        if display.activity != progress.activity:
            stopped_before = display.stopping
        if display.stopping and not stopped_before:
            raise KeyboardInterrupt
        display.set_activity(progress.activity)
        display.update(Snapshot(progress.rows, progress.planned, monotonic() - started, "", "rows"))

    return report


def explain_large(large: LargeTable) -> list[str]:
    """Say what will be read, and the memory and time that it takes."""
    from maabo_dist.mining.dataset import estimate_memory, estimate_seconds  # noqa: PLC0415 - see open_large

    dataset, columns = large.dataset, len(large.dataset.names)
    size = sum(file.size for file in dataset.files)
    memory = estimate_memory(large.sample, columns) / (1 << 30)
    seconds = format_duration(estimate_seconds(dataset.rows, columns))
    passes = "the target, all columns, the columns of candidates, and some more of those of findings"
    return [
        f"table: {dataset.rows:,} rows and {columns:,} columns in {len(dataset.files):,} files, {size / 1e6:,.0f} MB",
        f"sample: about {large.sample:,} rows are searched; the evidence is counted on all rows (--sample)",
        f"memory: about {memory:.1f} GB, whatever the number of rows",
        f"passes: {passes}; about {seconds} on one core, beside the search",
    ]
