"""`RuleMiner`: the method as a scikit-learn estimator."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from inspect import cleandoc
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils import estimator_html_repr
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from maabo_dist._util.settings_model import SettingsModel, document_field
from maabo_dist.data.preparation import MIN_ROWS, add_described_columns, frame_from_arrays, prepare
from maabo_dist.errors import DatasetError
from maabo_dist.mining.local import Progress
from maabo_dist.report.notebook import MinedRule, ResultViews
from maabo_dist.report.stability import mine_with_repeats
from maabo_dist.rules.frame_matching import match_frame
from maabo_dist.rules.matching import mean_class_shares
from maabo_dist.settings import MiningSettings, RepeatSettings, TableSettings

Settings = TypeVar("Settings", bound=SettingsModel)


def _document_settings() -> str:
    """Return the entries of the parameters that are settings, from the fields of these."""
    table = {name: TableSettings.model_fields[name] for name in ("impute", "missing_indicator", "max_levels", "time")}
    fields = MiningSettings.model_fields | table | RepeatSettings.model_fields
    entries = (document_field(name, field) for name, field in fields.items())
    return "\n".join(entries).replace("class_weight :", "class_weighting :")


class RuleMiner(ResultViews, ClassifierMixin, TransformerMixin, BaseEstimator):
    """Mine certified if–then rules on different rows, and classify by them.

    DataFrames keep their column names, and may hold text, booleans, categories and missing values. The parameters are
    those of `MiningSettings`, `TableSettings` and `RepeatSettings`, under the same names; only `class_weight` is called
    `class_weighting`, since scikit-learn expects more of the other name than "balanced" and "none".

    Parameters
    ----------
    n_jobs : int, optional
        Threads that grow trees, as joblib counts them. The rules do not depend on it.
    progress : callable, optional
        Called with a `Progress` after every batch. The search stops if it returns True.

    Attributes
    ----------
    classes_ : ndarray
        The distinct labels.
    rules_ : tuple of MinedRule
        The rules, in the order of selection.
    result_ : MiningResult
        The whole result.
    notes_ : tuple of str
        Remarks on the table and on the search.
    repeats_ : RepeatsRecord or None
        The consensus rules and a record of the repeats; None without repeats.
    stability_ : list of StabilityRecord or None
        For each rule, how often it came back; None without repeats.
    n_features_in_ : int
        Number of columns seen by `fit`.
    feature_names_in_ : ndarray
        Names of the columns, if `fit` was given a DataFrame.

    Examples
    --------
    >>> from maabo_dist import RuleMiner
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> miner = RuleMiner(trees=50, min_samples=20).fit(X, y)
    >>> print(miner.rules_[0].text)
    IF color_intensity ≤ 3.5 THEN target = 1
    """

    def __init__(  # noqa: PLR0913 - scikit-learn reads the parameters off this signature
        self,
        *,
        subset_size: int | str = 3,
        always: str | Sequence[str] = (),
        one_of: Sequence[Sequence[str]] = (),
        max_depth: int = 5,
        trees: int | str | None = None,
        initial: int = 10,
        alpha: float = 0.25,
        h: float = 0.5,
        b: float = 0.5,
        top_features: int | str | None = None,
        candidates: int | str | None = None,
        min_samples: int | None = None,
        gini: float | None = None,
        min_precision: float = 0.0,
        min_lift: float = 1.0,
        for_class: Sequence[Any] = (),
        prefer: str = "balanced",
        max_rules: int | None = None,
        all: bool = False,  # noqa: A002 - the setting's name
        certify: int | str = "auto",
        max_p: float | None = None,
        similarity: float = 0.7,
        similarity_by: str = "logic",
        preset: str = "auto",
        seeded: float = 0.8,
        neighbours: float = 0.3,
        completions: float = 0.2,
        literals: str | None = None,
        significance: float = 0.05,
        probes: int = 0,
        strategy: str = "maabo",
        batch: int | None = None,
        in_flight: int = 1,
        complete: str = "auto",
        patience: int | None = None,
        time_limit: float | None = None,
        seed: int = 0,
        split_seed: int | None = None,
        test_size: float = 0.3,
        holdout: float | None = None,
        holdout_by: str = "time",
        stratify: bool = False,
        class_weighting: str = "balanced",
        min_samples_leaf: int = 1,
        impute: str = "median",
        missing_indicator: bool = False,
        max_levels: int = 50,
        time: str | None = None,
        repeats: int = 0,
        consensus: float = 0.5,
        n_jobs: int | None = None,
        progress: Callable[[Progress], bool | None] | None = None,
    ) -> None:
        # scikit-learn expects an attribute for each parameter, with the value as it was given.
        self.subset_size, self.max_depth, self.trees, self.initial = subset_size, max_depth, trees, initial
        self.always, self.one_of, self.alpha, self.h, self.b = always, one_of, alpha, h, b
        self.top_features, self.candidates = top_features, candidates
        self.min_samples, self.gini = min_samples, gini
        self.min_precision, self.min_lift, self.for_class = min_precision, min_lift, for_class
        self.prefer, self.max_rules, self.all, self.certify, self.max_p = prefer, max_rules, all, certify, max_p
        self.similarity, self.similarity_by = similarity, similarity_by
        self.preset, self.seeded, self.neighbours, self.completions = preset, seeded, neighbours, completions
        self.literals, self.significance, self.probes = literals, significance, probes
        self.strategy, self.batch, self.in_flight = strategy, batch, in_flight
        self.complete = complete
        self.patience, self.time_limit = patience, time_limit
        self.seed, self.split_seed, self.test_size, self.holdout = seed, split_seed, test_size, holdout
        self.holdout_by = holdout_by
        self.stratify, self.class_weighting, self.min_samples_leaf = stratify, class_weighting, min_samples_leaf
        self.impute, self.missing_indicator, self.max_levels = impute, missing_indicator, max_levels
        self.time = time
        self.repeats, self.consensus = repeats, consensus
        self.n_jobs, self.progress = n_jobs, progress

    __doc__ = cleandoc(__doc__ or "").replace("\nn_jobs :", f"\n{_document_settings()}\nn_jobs :", 1)

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Mine the rules of a table.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            The table. Arrays hold numbers, NaN where a value is missing.
        y : array-like of shape (n_samples,)
            The class of each row.
        sample_weight : array-like of shape (n_samples,), optional
            The weight of each row: numbers of rows if all are whole numbers, otherwise sampling weights, as the command
            line's `--weight`. Rows of weight 0 are left out.
        groups : array-like of shape (n_samples,), optional
            Rows with the same value belong together, as with the command line's `--group`: splits and shuffles keep
            them together. Rows without a value are one group.

        Returns
        -------
        RuleMiner
            The fitted estimator.

        Examples
        --------
        >>> from maabo_dist import RuleMiner
        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True, as_frame=True)
        >>> len(RuleMiner(trees=50, min_samples=20).fit(X, y).rules_)
        3
        """
        for_class = [self.for_class] if isinstance(self.for_class, str) else self.for_class
        always = (self.always,) if isinstance(self.always, str) else self.always
        settings = self._settings(
            MiningSettings,
            class_weight=self.class_weighting,
            for_class=tuple(str(name) for name in for_class),
            always=always,
        )
        repeats = self._settings(RepeatSettings)
        frame = self._frame(X, reset=True)
        self.classes_, codes = np.unique(_check_labels(y, frame), return_inverse=True)
        table = prepare(*self._with_columns(frame, codes, sample_weight, groups))
        # The text of a class is its code. Rows that are left out may have been the only ones of a class.
        self.classes_ = self.classes_[[int(code) for code in table.columns.classes]]
        classes = tuple(str(name) for name in self.classes_)
        columns = replace(table.columns, classes=classes, target=str(getattr(y, "name", None) or "class"))
        few_columns = columns.count <= settings.subset_sizes[-1]
        if few_columns and (settings.preset == "paper" or settings.subset_size != 3) and not settings.names_columns:
            settings = settings.model_copy(update={"strategy": "single"})
        progress = self.progress
        self.result_, document = mine_with_repeats(
            columns,
            settings,
            repeats,
            jobs=effective_n_jobs(self.n_jobs),
            progress=None if progress is None else lambda _, report: progress(report),
            keep_records=True,
        )
        self.rules_ = tuple(MinedRule.of(rule, columns.classes, columns.target) for rule in self.result_.rules)
        self.repeats_ = document.repeats
        self.stability_ = [rule.stability for rule in document.rules]
        self.notes_ = (*table.notes, *document.notes)
        self._document = document.model_copy(update={"notes": self.notes_})
        self._encoder = table.encoder
        self._columns = columns
        self._figures = None
        return self

    def transform(self, X: Any) -> npt.NDArray[np.float64]:
        """Mark the rules that cover each row.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            Rows with the columns that `fit` saw.

        Returns
        -------
        ndarray of shape (n_samples, n_rules)
            1 where a rule covers a row, else 0.

        Examples
        --------
        >>> from maabo_dist import RuleMiner
        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True, as_frame=True)
        >>> miner = RuleMiner(trees=50, min_samples=20).fit(X, y)
        >>> miner.transform(X).shape == (len(X), len(miner.rules_))
        True
        """
        return self._covered(X).T.astype(np.float64)

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Estimate class probabilities: the mean class shares of the rules that cover a row.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            Rows with the columns that `fit` saw.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of `classes_`. Rows that no rule covers get the shares of the classes in the training rows.

        Examples
        --------
        >>> from maabo_dist import RuleMiner
        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True, as_frame=True)
        >>> miner = RuleMiner(trees=50, min_samples=20).fit(X, y)
        >>> miner.predict_proba(X.head(1)).round(2)
        array([[1., 0., 0.]])
        """
        covered = self._covered(X)
        counts = np.array([rule.counts for rule in self.rules_]).reshape(-1, len(self.classes_))
        shares = mean_class_shares(covered, counts)
        return np.where(np.isnan(shares), np.array(self.result_.base_rates), shares)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Predict the class of greatest probability; ties go to the first class.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            Rows with the columns that `fit` saw.

        Returns
        -------
        ndarray of shape (n_samples,)
            The predicted classes.

        Examples
        --------
        >>> from maabo_dist import RuleMiner
        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True, as_frame=True)
        >>> miner = RuleMiner(trees=50, min_samples=20).fit(X, y)
        >>> miner.predict(X.head(3))
        array([0, 0, 0])
        """
        best = np.argmax(self.predict_proba(X), axis=1)
        labels: npt.NDArray[Any] = self.classes_[best]
        return labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = []
        tags.classifier_tags.poor_score = True  # rules do not classify rows that they do not cover
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        return state | {"_columns": None} if "_columns" in state else state

    def _repr_html_inner(self) -> str:
        """HTML for notebooks: the rules once fitted; before that, scikit-learn's diagram."""
        return self._rules_html() if hasattr(self, "rules_") else str(estimator_html_repr(self))

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)
        return bundle | ({"text/html": self._repr_html_inner()} if "text/html" in bundle else {})

    def _settings(self, model: type[Settings], **more: object) -> Settings:
        """The settings of this model, from the parameters of the same names."""
        parameters = self.get_params(deep=False)
        return model.parse({name: parameters[name] for name in model.model_fields if name in parameters} | more)

    def _with_columns(
        self, frame: pd.DataFrame, codes: npt.NDArray[np.int64], sample_weight: Any, groups: Any
    ) -> tuple[pd.DataFrame, TableSettings]:
        """The table as `prepare` takes it: classes, weights and groups are columns, under names that no other has."""
        added: dict[str, Any] = {"target": [f"{code:06d}" for code in codes]}  # text sorts as the codes do
        if sample_weight is not None:
            added["weight"] = _check_sample_weight(sample_weight, frame, dtype=np.float64)
            if len(np.unique(codes[added["weight"] > 0])) < 2:
                raise DatasetError("The rows with a sample weight above 0 are of one class; mining needs at least 2.")
        if groups is not None:
            check_consistent_length(frame, groups)
            added["group"] = np.asarray(groups)
        frame, names = add_described_columns(frame, added)
        return frame, self._settings(TableSettings, **names)

    def _frame(self, X: Any, *, reset: bool) -> pd.DataFrame:
        if not isinstance(X, pd.DataFrame) and hasattr(X, "__arrow_c_stream__") and hasattr(X, "columns"):
            X = pa.table(X).to_pandas()  # a Polars frame, with its names and texts
        if isinstance(X, pd.DataFrame):
            validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        min_rows = MIN_ROWS if reset else 1
        array = validate_data(
            self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_samples=min_rows
        )
        return frame_from_arrays(array)

    def _covered(self, X: Any) -> npt.NDArray[np.bool_]:
        """(rules, rows): True where a rule covers a row."""
        check_is_fitted(self)
        frame = self._frame(X, reset=False)
        return match_frame([rule.conditions for rule in self.rules_], frame, self._encoder)


def _check_labels(y: Any, frame: pd.DataFrame) -> npt.NDArray[Any]:
    labels = column_or_1d(y, warn=True)
    check_classification_targets(labels)
    check_consistent_length(frame, labels)
    return np.asarray(labels)
