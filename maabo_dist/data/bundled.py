"""Example tables, each with suitable settings. All but one of them come with scikit-learn."""

import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pandas as pd

from maabo_dist._util.text import format_names
from maabo_dist.errors import DatasetError
from maabo_dist.settings import TableSettings

BUNDLED = ("diabetes", "breast_cancer", "wine", "titanic")
FETCH_SECONDS = 10.0

_TARGETS = {"breast_cancer": "diagnosis", "wine": "cultivar"}
_DIABETES_NAMES = {"s1": "tc", "s2": "ldl", "s3": "hdl", "s4": "tch", "s5": "ltg", "s6": "glu", "target": "progression"}
_TITANIC_COLUMNS = ["pclass", "sex", "age", "sibsp", "parch", "fare", "embarked", "survived"]


def load_bundled(name: str) -> tuple[pd.DataFrame, TableSettings]:
    """Return the table called `name` and its default settings."""
    if name not in BUNDLED:
        raise DatasetError(f"No bundled table is called {name!r}. Bundled tables: {format_names(BUNDLED)}.")
    from sklearn import datasets  # noqa: PLC0415 - 0.9 s, only bundled tables need it

    if name == "titanic":
        return _fetch_titanic(datasets)
    if name == "diabetes":
        frame = datasets.load_diabetes(scaled=False, as_frame=True).frame.rename(columns=_DIABETES_NAMES)
        return frame, TableSettings(target="progression", target_above="mean")
    bunch, target = getattr(datasets, f"load_{name}")(as_frame=True), _TARGETS[name]
    class_names = bunch.target_names[bunch.target].astype(object)
    return bunch.data.assign(**{target: class_names}), TableSettings(target=target)


def _fetch_titanic(datasets: Any) -> tuple[pd.DataFrame, TableSettings]:
    try:
        with _bounded_network():
            fetched = datasets.fetch_openml("titanic", version=1, as_frame=True, n_retries=1, delay=0.5)
    except Exception as error:  # the remedy is the same for every network error
        raise DatasetError(
            f"The table titanic comes from OpenML, and fetching it failed ({error or type(error).__name__}). "
            "Check the network connection and try again, or use your own CSV file."
        ) from error
    return fetched.frame[_TITANIC_COLUMNS], TableSettings(target="survived")


@contextmanager
def _bounded_network() -> Iterator[None]:
    """Limit connections to `FETCH_SECONDS`, and silence warnings about retries.

    scikit-learn opens its connections without a time limit; only the process-wide one can be set.
    """
    previous = socket.getdefaulttimeout()
    socket.setdefaulttimeout(FETCH_SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        socket.setdefaulttimeout(previous)
