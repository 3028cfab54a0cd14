"""`RuleMiner`: the method as a scikit-learn estimator.

    miner = RuleMiner(holdout=0.2).fit(frame, labels)
    miner.get_rules()          one row per rule
    miner.transform(rows)      which rule covers which row
    miner.explain(rows)        the same, told in words
    miner.get_consensus()      with repeats, the rules that come back on other draws of the rows
    miner.predict(rows)        by the rules that cover a row; by the base rate where none does
    miner.document()           all that is said of the rules, as plain JSON values
    miner.figures()           what pictures show besides; `maabo_dist.plots` draws them

DataFrames keep their column names, and may hold text, booleans, categories and missing values, as tables do. The
parameters are those of `MiningSettings` and of the table's preparation, under the same names; only `class_weight` is
`class_weighting` here, since scikit-learn means more by the other name than "balanced" and "none".
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils import estimator_html_repr
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from maabo_dist._util.text import format_count
from maabo_dist.contract.result import ConsensusRecord, ResultDocument
from maabo_dist.data.columns import Columns
from maabo_dist.data.preparation import MIN_ROWS, frame_from_arrays, prepare
from maabo_dist.errors import SettingsError
from maabo_dist.mining.local import Progress
from maabo_dist.report.figures import FigureData, figures_of
from maabo_dist.report.notebook import MinedRule, rules_html
from maabo_dist.report.stability import mine_with_repeats
from maabo_dist.report.summary import no_rules_reason, search_text
from maabo_dist.report.wording import rule_text
from maabo_dist.rules.matching import covered_values, logic_arrays, mean_class_shares
from maabo_dist.settings import MiningSettings, RepeatSettings, TableSettings

TABLE_PARAMETERS = ("impute", "missing_indicator", "max_levels")
REPEAT_PARAMETERS = ("repeats", "consensus")
OTHER_PARAMETERS = ("n_jobs", "progress")


class RuleMiner(ClassifierMixin, TransformerMixin, BaseEstimator):
    """Mines reliable, dissimilar rules and classifies by them.

    `subset_size` is a number of features per tree, or a range such as "2-4". With no more features than that, one tree
    is grown on all of them. `n_jobs` threads grow trees; the rules do not depend on it. `progress` is called with a
    `Progress` after every batch and may return True to stop. `repeats` halves of the rows are mined besides; rules that
    come back in the share `consensus` of them are consensus rules.

    Attributes after `fit`: `classes_`, `rules_` (a tuple of `MinedRule`), `result_` (the whole `MiningResult`),
    `notes_` (sentences on what became of the table), `n_features_in_`, `feature_names_in_` (for DataFrames).
    """

    def __init__(  # noqa: PLR0913 - scikit-learn reads the parameters off this signature
        self,
        *,
        subset_size: int | str = 3,
        max_depth: int = 5,
        trees: int | str | None = None,
        initial: int = 10,
        alpha: float = 0.25,
        h: float = 0.5,
        b: float = 0.5,
        top_features: int | str | None = None,
        candidates: int | str | None = None,
        min_samples: int = 50,
        gini: float = 0.3,
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
        patience: int | None = None,
        time_limit: float | None = None,
        seed: int = 0,
        split_seed: int | None = None,
        test_size: float = 0.3,
        holdout: float = 0.0,
        stratify: bool = False,
        class_weighting: str = "balanced",
        min_samples_leaf: int = 1,
        impute: str = "median",
        missing_indicator: bool = False,
        max_levels: int = 50,
        repeats: int = 0,
        consensus: float = 0.5,
        n_jobs: int | None = None,
        progress: Callable[[Progress], bool | None] | None = None,
    ) -> None:
        self.subset_size = subset_size
        self.max_depth = max_depth
        self.trees = trees
        self.initial = initial
        self.alpha = alpha
        self.h = h
        self.b = b
        self.top_features = top_features
        self.candidates = candidates
        self.min_samples = min_samples
        self.gini = gini
        self.similarity = similarity
        self.similarity_by = similarity_by
        self.preset = preset
        self.seeded = seeded
        self.neighbours = neighbours
        self.completions = completions
        self.literals = literals
        self.significance = significance
        self.probes = probes
        self.strategy = strategy
        self.batch = batch
        self.in_flight = in_flight
        self.patience = patience
        self.time_limit = time_limit
        self.seed = seed
        self.split_seed = split_seed
        self.test_size = test_size
        self.holdout = holdout
        self.stratify = stratify
        self.class_weighting = class_weighting
        self.min_samples_leaf = min_samples_leaf
        self.impute = impute
        self.missing_indicator = missing_indicator
        self.max_levels = max_levels
        self.repeats = repeats
        self.consensus = consensus
        self.n_jobs = n_jobs
        self.progress = progress

    def fit(self, X: Any, y: Any) -> Self:
        """Mine the rules of a table `X` (DataFrame or array) with the classes `y`."""
        settings, wanted = (
            self._mining_settings(),
            RepeatSettings.parse({name: getattr(self, name) for name in REPEAT_PARAMETERS}),
        )
        frame = self._frame(X, reset=True)
        y = _checked_labels(y, frame)
        self.classes_, codes = np.unique(y, return_inverse=True)
        table = prepare(*self._with_target(frame, codes))
        columns = replace(table.columns, classes=tuple(str(name) for name in self.classes_), target="class")
        if columns.count <= settings.subset_sizes[-1]:
            settings = settings.model_copy(update={"strategy": "single"})
        progress = None if self.progress is None else self._progress
        self.result_, document = mine_with_repeats(
            columns, settings, wanted, jobs=effective_n_jobs(self.n_jobs), progress=progress, keep_records=True
        )
        self.rules_ = tuple(MinedRule.of(rule, columns.classes, columns.target) for rule in self.result_.rules)
        self.repeats_ = document.repeats
        self.stability_ = [rule.stability for rule in document.rules]
        self.notes_ = (*table.notes, *document.notes)
        self._document = document.model_copy(update={"notes": self.notes_})
        self._encoder = table.encoder
        self._columns: Columns | None = columns
        self._figures: FigureData | None = None
        return self

    def document(self) -> ResultDocument:
        """The result document: what `maabo mine --format json` writes."""
        check_is_fitted(self)
        return self._document

    def figures(self) -> FigureData:
        """What pictures of the rules show beyond the document; made when they are first asked for.

        They are made from the table, which a miner that was pickled or copied has no longer; once made, they stay.
        """
        check_is_fitted(self)
        if self._figures is None:
            if self._columns is None:
                raise SettingsError(
                    "A miner that was pickled or copied has no table to draw from. Call figures() before that."
                )
            self._figures, self._columns = figures_of(self.result_, self._columns), None
        return self._figures

    def get_rules(self) -> pd.DataFrame:
        """One row per rule, best known first, with the evidence for each."""
        check_is_fitted(self)
        rows = [self._summary(number) for number in range(len(self.rules_))]
        return pd.DataFrame(rows, columns=None if rows else ["id", "rule", "class", "n", "gini"])

    def get_consensus(self) -> pd.DataFrame:
        """One row per consensus rule of the repeats, the simplest first; `id` is None where `get_rules` has it not."""
        check_is_fitted(self)
        columns = ["id", "rule", "class", "rows", "stability", "precision"]
        consensus = self.repeats_.consensus if self.repeats_ else ()
        return pd.DataFrame(map(self._consensus_row, consensus), columns=columns)

    def transform(self, X: Any) -> npt.NDArray[np.float64]:
        """(rows, rules): 1 where a rule covers a row, else 0."""
        return self._covered(X).T.astype(np.float64)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:  # noqa: ARG002
        """The ids of the rules: what the columns of `transform` are."""
        check_is_fitted(self)
        return np.array([rule.id for rule in self.rules_], dtype=object)

    def explain(self, X: Any) -> pd.DataFrame:
        """One row for each pair of a row of `X` and a rule that covers it; rows that no rule covers do not appear."""
        covered = self._covered(X)
        rows, rules = np.nonzero(covered.T)
        summaries = [self._summary(number) for number in range(len(self.rules_))]
        found = [{"row": int(row), **summaries[number]} for row, number in zip(rows, rules, strict=True)]
        wanted = ["row", "id", "rule", "class", "precision", "n"]
        return pd.DataFrame(found, columns=wanted)

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """The mean class shares of the rules that cover a row; the base rates where none does."""
        covered = self._covered(X)
        counts = np.array([rule.counts for rule in self.rules_]).reshape(-1, len(self.classes_))
        shares = mean_class_shares(covered, counts)
        return np.where(np.isnan(shares), np.array(self.result_.base_rates), shares)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The class of greatest probability; the first of equals."""
        best = np.argmax(self.predict_proba(X), axis=1)
        predicted: npt.NDArray[Any] = self.classes_[best]
        return predicted

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = []
        tags.classifier_tags.poor_score = True  # rules say nothing of rows that they do not cover
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        return state | {"_columns": None} if "_columns" in state else state

    def _repr_html_inner(self) -> str:
        """What a notebook shows: the rules, once there are some; before, scikit-learn's diagram."""
        if not hasattr(self, "rules_"):
            return str(estimator_html_repr(self))
        title = f"RuleMiner: {format_count(len(self.rules_), 'rule')} from {search_text(self._document)}"
        return rules_html(self.rules_, title, no_rules_reason(self._document))

    def _repr_mimebundle_(self, **asked: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**asked)
        return bundle | ({"text/html": self._repr_html_inner()} if "text/html" in bundle else {})

    def _progress(self, _run: int, progress: Progress) -> bool | None:
        return None if self.progress is None else self.progress(progress)

    def _consensus_row(self, rule: ConsensusRecord) -> dict[str, Any]:
        return {
            "id": rule.rule,
            "rule": rule.text,
            "class": self.classes_[self.result_.classes.index(rule.label)],
            "rows": rule.rows,
            "stability": rule.stability.share,
            "precision": rule.stability.precision,
        }

    def _mining_settings(self) -> MiningSettings:
        given = self.get_params(deep=False)
        given["class_weight"] = given.pop("class_weighting")
        others = (*TABLE_PARAMETERS, *REPEAT_PARAMETERS, *OTHER_PARAMETERS)
        return MiningSettings.parse({k: v for k, v in given.items() if k not in others})

    def _with_target(self, frame: pd.DataFrame, codes: npt.NDArray[np.int64]) -> tuple[pd.DataFrame, TableSettings]:
        """The table as `prepare` takes it: the class is one more column, under a name that no other column has."""
        target = "class"
        while target in frame.columns:
            target += "_"
        table = {name: getattr(self, name) for name in TABLE_PARAMETERS}
        labels = pd.Series([f"{code:06d}" for code in codes], index=frame.index)  # text sorts as the codes do
        return frame.assign(**{target: labels}), TableSettings.parse({"target": target, **table})

    def _frame(self, X: Any, *, reset: bool) -> pd.DataFrame:
        if isinstance(X, pd.DataFrame):
            validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        fewest = MIN_ROWS if reset else 1
        array = validate_data(
            self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_samples=fewest
        )
        return frame_from_arrays(array)

    def _covered(self, X: Any) -> npt.NDArray[np.bool_]:
        """(rules, rows): which rule covers which row."""
        check_is_fitted(self)
        frame = self._frame(X, reset=False)
        return covered_values(self._encoder.encode(frame), *logic_arrays(self.rules_))

    def _summary(self, number: int) -> dict[str, Any]:
        rule, result = self.rules_[number], self.result_
        row = {
            "id": rule.id,
            "rule": rule_text(rule, result.classes, result.target),
            "class": self.classes_[rule.label],
            "n": rule.n,
            "gini": rule.gini,
            "precision": rule.train.precision,
            "recall": rule.train.recall,
            "lift": rule.train.lift,
            "validation_n": rule.validation.n,
            "validation_precision": rule.validation.precision,
        }
        if rule.holdout is not None:
            row |= {
                "holdout_n": rule.holdout.n,
                "holdout_precision": rule.holdout.precision,
                "holdout_p": rule.holdout.p,
                "holdout_q": rule.holdout.q,
            }
        if (stability := self.stability_[number]) is not None:
            row["stability"] = stability.share
        return row | {"unique": rule.unique, "subset": rule.source.subset, "score": rule.source.score}


def _checked_labels(y: Any, frame: pd.DataFrame) -> npt.NDArray[Any]:
    labels = column_or_1d(y, warn=True)
    check_classification_targets(labels)
    check_consistent_length(frame, labels)
    return np.asarray(labels)
