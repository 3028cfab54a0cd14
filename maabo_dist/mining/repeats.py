"""Repeats: mine a table again on random halves of its rows, to see which rules come back.

A half is drawn by settings alone: a split seed, and all other rows held out. A repeat is therefore a job like any
other, and a function of the table and the settings. Limits on the rows of a leaf are halved too. Halves rather than
other splits of all rows: these would share most of their rows, and agree on rules that new rows would not confirm.
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from maabo_dist.data.columns import Columns
from maabo_dist.data.split import held_out_share
from maabo_dist.errors import DatasetError
from maabo_dist.mining.local import Progress, mine
from maabo_dist.mining.result import MiningResult
from maabo_dist.settings import MiningSettings
from maabo_dist.study import split_for

# Called after every batch with the number of the run, 0 for that of the whole table; True asks to stop.
RepeatProgress = Callable[[int, Progress], bool | None]

_STREAM = 0x5EED  # keeps the draws of repeats apart from other uses of the seed


def repeat_settings(settings: MiningSettings, repeats: int, rows: int) -> tuple[MiningSettings, ...]:
    """The settings of each repeat: half of the rows that the search of the whole table sees, drawn by its split seed.

    Parameters
    ----------
    settings : MiningSettings
        The settings of the whole table's search.
    repeats : int
        Number of repeats.
    rows : int
        Rows of the table.
    """
    base = settings.seed if settings.split_seed is None else settings.split_seed
    seeds = np.random.SeedSequence([base, _STREAM]).generate_state(repeats).tolist() if repeats else []
    changes = {
        "holdout": 1 - (1 - held_out_share(settings.holdout, rows)) / 2,
        "min_samples": None if settings.min_samples is None else _half(settings.min_samples),
        "holdout_by": "random",
        "certify": "off",
        "min_samples_leaf": _half(settings.min_samples_leaf),
    }
    return tuple(settings.model_copy(update=changes | {"split_seed": seed}) for seed in seeds)


def check_repeats(columns: Columns, repeats: Iterable[MiningSettings]) -> None:
    """Raise a DatasetError if the table is too small for these repeats."""
    for settings in repeats:
        try:
            split_for(columns, settings)
        except DatasetError as error:
            raise DatasetError(f"--repeats: half of the rows are too few. {error}") from error


def mine_repeats(
    columns: Columns, repeats: Iterable[MiningSettings], jobs: int = 1, progress: RepeatProgress | None = None
) -> Iterator[MiningResult]:
    """Mine one repeat after another. A repeat that is stopped early is left out, and is the last.

    Parameters
    ----------
    columns : Columns
        The prepared table.
    repeats : iterable of MiningSettings
        The settings of each repeat, from `repeat_settings`.
    jobs : int, default=1
        Threads that grow trees.
    progress : callable, optional
        Called after every batch with the number of the repeat, from 1, and a `Progress`. The repeats stop if it
        returns True.

    Yields
    ------
    MiningResult
        The result of each repeat.
    """
    for run, settings in enumerate(repeats, 1):
        result = mine(columns, settings, jobs=jobs, progress=progress_of_run(progress, run))
        if result.search.stopped.cut_short:
            return
        yield result


def progress_of_run(progress: RepeatProgress | None, run: int) -> Callable[[Progress], bool | None] | None:
    """The callback that `mine` takes, for the run of this number."""
    return None if progress is None else lambda report: progress(run, report)


def _half(rows: int) -> int:
    return (rows + 1) // 2
