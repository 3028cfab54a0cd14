"""The result of a fitted miner in a notebook: DataFrames, the document, figure data, and a small HTML table.

The table has its styles in attributes, for light and dark pages: text and lines have the colour of the page
(`currentColor`). Names from data are escaped, and there is no script.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from maabo_dist.contract.result import ResultDocument
from maabo_dist.contract.rules import RepeatsRecord, StabilityRecord, Verdict
from maabo_dist.contract.wording import ALWAYS, also_text, class_text, condition_texts
from maabo_dist.data.columns import Columns
from maabo_dist.errors import SettingsError
from maabo_dist.mining.result import MiningResult
from maabo_dist.report.briefing import headline
from maabo_dist.report.figures import FigureData, figures_of
from maabo_dist.report.html.markup import Html, element, joined
from maabo_dist.report.summary import (
    FAILED_HEADING,
    no_rules_texts,
    p_value_text,
    search_text,
    two_decimals,
    verdict_text,
)
from maabo_dist.rules.rule import Rule, rule_text

# Rules shown in the table.
MAX_ROWS = 25

_CELL = "text-align:left;vertical-align:top;padding:.3em .9em .3em 0;background:none"
_LINE = "border:0;border-bottom:1px solid color-mix(in srgb, currentColor 22%, transparent)"
_SOFT = "opacity:.72"
_NUMBER = "text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MinedRule(Rule):
    """A rule with the names of its classes, which it shows in its text; equal to the same rule without them."""

    classes: tuple[str, ...]
    target: str

    @classmethod
    def of(cls, rule: Rule, classes: tuple[str, ...], target: str) -> "MinedRule":
        """Add the names to a rule."""
        return cls(**_plain(rule), classes=classes, target=target)

    @property
    def text(self) -> str:
        """The rule as a sentence: `IF sex = female AND fare > 48.2 THEN survived = 1`."""
        return rule_text(self, self.classes, self.target)

    def __eq__(self, other: object) -> bool:
        return _plain(self) == _plain(other) if isinstance(other, Rule) else NotImplemented

    __hash__ = Rule.__hash__

    def _repr_html_(self) -> str:
        return rules_table([self])


class ResultViews(ABC):
    """The result of a fitted miner as a document, as figure data, as DataFrames and as HTML."""

    classes_: npt.NDArray[Any]
    rules_: tuple[MinedRule, ...]
    result_: MiningResult
    repeats_: RepeatsRecord | None
    stability_: list[StabilityRecord | None]
    _document: ResultDocument
    _columns: Columns | None
    _figures: FigureData | None

    def document(self) -> ResultDocument:
        """Return the result document, which `maabo mine --format json` writes.

        Returns
        -------
        ResultDocument
            The rules and the evidence for them; `to_json()` gives plain JSON values.

        Examples
        --------
        >>> from maabo_dist import RuleMiner
        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True, as_frame=True)
        >>> miner = RuleMiner(trees=50, min_samples=20).fit(X, y)
        >>> miner.document().rules[0].id
        'R1'
        """
        check_is_fitted(self)
        return self._document

    def figures(self) -> FigureData:
        """Return the data of the figures that `maabo_dist.plots` and the report draw.

        They are made from the table when they are first asked for, and kept. A miner that was pickled or copied no
        longer has the table.

        Returns
        -------
        dict
            Plain JSON values: histograms, trees, covered rows, similarities and the score history.

        Raises
        ------
        SettingsError
            If the miner was pickled or copied before `figures` was called.

        Examples
        --------
        >>> from maabo_dist import RuleMiner
        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True, as_frame=True)
        >>> miner = RuleMiner(trees=50, min_samples=20).fit(X, y)
        >>> len(miner.figures()["rules"]) == len(miner.rules_)
        True
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
        """Return one row per rule, in the order of selection, with the evidence for each.

        Returns
        -------
        DataFrame
            Columns `id`, `rule`, `class`, `n` and `gini`, then precision, recall and lift on the training rows, the
            performance on validation and held-out rows, the verdict of the latter, `adjusted_p` (the p-value of the
            rule, adjusted for the whole search), the stability if there were repeats, and the source.

        Examples
        --------
        >>> from maabo_dist import RuleMiner
        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True, as_frame=True)
        >>> miner = RuleMiner(trees=50, min_samples=20).fit(X, y)
        >>> miner.get_rules()[["id", "class", "n", "precision"]].head(2).round(2)
           id  class   n  precision
        0  R1      0  39        1.0
        1  R2      1  40        1.0
        """
        check_is_fitted(self)
        rows = [self._summary(number) for number in range(len(self.rules_))]
        return pd.DataFrame(rows, columns=None if rows else ["id", "rule", "class", "n", "gini"])

    def get_consensus(self) -> pd.DataFrame:
        """Return one row per consensus rule of the repeats, the simplest first.

        Returns
        -------
        DataFrame
            Columns `id` (None for rules that `get_rules` does not have), `rule`, `class`, `rows`, `stability` and
            `precision`. Empty without repeats.

        Examples
        --------
        >>> from maabo_dist import RuleMiner
        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True, as_frame=True)
        >>> miner = RuleMiner(trees=50, min_samples=20, repeats=4).fit(X, y)
        >>> miner.get_consensus()[["class", "stability"]].head(2)
           class  stability
        0      1        1.0
        1      2        1.0
        """
        check_is_fitted(self)
        columns = ["id", "rule", "class", "rows", "stability", "precision"]
        rows = []
        for rule in self.repeats_.consensus if self.repeats_ else ():
            label = self.classes_[self.result_.classes.index(rule.label)]
            rows.append((rule.rule, rule.text, label, rule.rows, rule.stability.share, rule.stability.precision))
        return pd.DataFrame(rows, columns=columns)

    def explain(self, X: Any) -> pd.DataFrame:
        """List the rules that cover each row.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            Rows with the columns that `fit` saw.

        Returns
        -------
        DataFrame
            One row for each pair of a row of `X` and a rule that covers it, with columns `row`, `id`, `rule`, `class`,
            `precision` and `n`. Rows that no rule covers do not appear.

        Examples
        --------
        >>> from maabo_dist import RuleMiner
        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True, as_frame=True)
        >>> miner = RuleMiner(trees=50, min_samples=20).fit(X, y)
        >>> miner.explain(X.head(1))[["row", "id", "class"]].head(2)
           row  id  class
        0    0  R1      0
        """
        covered = self._covered(X)
        summaries = [self._summary(number) for number in range(len(self.rules_))]
        pairs = zip(*np.nonzero(covered.T), strict=True)
        records = [{"row": int(row), **summaries[number]} for row, number in pairs]
        return pd.DataFrame(records, columns=["row", "id", "rule", "class", "precision", "n"])

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:  # noqa: ARG002
        """Return the ids of the rules, which are the columns of `transform`.

        Parameters
        ----------
        input_features : ignored
            Accepted for compatibility with scikit-learn.

        Returns
        -------
        ndarray of str
            R1, R2, …

        Examples
        --------
        >>> from maabo_dist import RuleMiner
        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True, as_frame=True)
        >>> miner = RuleMiner(trees=50, min_samples=20).fit(X, y)
        >>> miner.get_feature_names_out()[:2]
        array(['R1', 'R2'], dtype=object)
        """
        check_is_fitted(self)
        return np.array([rule.id for rule in self.rules_], dtype=object)

    @abstractmethod
    def _covered(self, X: Any) -> npt.NDArray[np.bool_]:
        """(rules, rows): True where a rule covers a row."""

    def _rules_html(self) -> str:
        reasons = [reason for _, reason in no_rules_texts(self._document)]
        missing = [record.text for record in self._document.missing_classes]
        search = f"From {search_text(self._document)}."
        return rules_html(self.rules_, f"{headline(self._document)}.", [*reasons, *missing, search])

    def _summary(self, number: int) -> dict[str, Any]:
        rule = self.rules_[number]
        row = {
            "id": rule.id,
            "rule": rule.text,
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
            row |= {f"holdout_{name}": getattr(rule.holdout, name) for name in ("n", "precision", "p", "q")}
            row["verdict"] = verdict_text(rule)
        if rule.certificate is not None:
            row["adjusted_p"] = rule.certificate.p
        if (stability := self.stability_[number]) is not None:
            row["stability"] = stability.share
        return row | {"unique": rule.unique, "subset": rule.source.subset, "score": rule.source.score}


def rules_html(rules: Sequence[MinedRule], title: str, remarks: Sequence[str]) -> str:
    """Return a title, the table of the rules if there are any, and remarks."""
    heading = element("p", element("b", title), style="margin:0 0 .5em")
    hidden = len(rules) - MAX_ROWS
    more = f"… and {hidden:,} more: get_rules() has them all." if hidden > 0 else ""
    failed = [rule for rule in rules[:MAX_ROWS] if rule.certificate and rule.verdict is Verdict.FAILED]
    passed = [rule for rule in rules[:MAX_ROWS] if rule not in failed]
    parts = [rules_table(passed)] if passed else []
    if failed:
        parts += [element("p", element("b", FAILED_HEADING), style="margin:1em 0 .5em"), rules_table(failed)]
    tail = [element("p", text, style=f"margin:.5em 0 0;{_SOFT}") for text in [*([more] if more else []), *remarks]]
    return element("div", heading, *parts, *tail, style="color:inherit")


def rules_table(rules: Sequence[MinedRule]) -> Html:
    """Return a table with a row for each rule."""
    last = "held out" if any(rule.holdout for rule in rules) else "validation"
    way = "training → validation" + (" → held out" if last == "held out" else "")
    heads = [("", ""), ("If … then", ""), ("n", "training"), ("Precision", way), ("Lift", last)]
    if any(rule.certificate for rule in rules):
        heads.append(("p", "adjusted"))
    return element(
        "table",
        element("thead", element("tr", *(_head(*head, number=index > 1) for index, head in enumerate(heads)))),
        element("tbody", *(_row(rule) for rule in rules)),
        style="border-collapse:collapse;color:inherit;background:none;border:0;font-size:inherit",
    )


def _head(label: str, hint: str, *, number: bool) -> Html:
    content = joined(
        [label, *([element("div", hint, style=f"font-weight:normal;font-size:.85em;{_SOFT}")] if hint else [])]
    )
    return element("th", content, scope="col", style=f"{_CELL};{_LINE}{f';{_NUMBER}' if number else ''}")


def _row(rule: MinedRule) -> Html:
    lift = (rule.holdout or rule.validation).lift
    supports = [rule.train, rule.validation, *([rule.holdout] if rule.holdout else [])]
    precision = " → ".join(two_decimals(support.precision) for support in supports)
    if rule.holdout:
        precision += f", {verdict_text(rule)}"
    p = [p_value_text(rule.certificate.p)] if rule.certificate else []
    return element(
        "tr",
        element("th", rule.id, scope="row", style=f"{_CELL};{_LINE};font-weight:normal;{_SOFT}"),
        element(
            "td",
            joined([_sentence(rule), *_also(rule)]),
            style=f"{_CELL};{_LINE};max-width:42em;white-space:normal;overflow-wrap:anywhere",
        ),
        *(
            element("td", text, style=f"{_CELL};{_LINE};{_NUMBER}")
            for text in (f"{rule.n:,}", precision, two_decimals(lift), *p)
        ),
        style="background:none",
    )


def _sentence(rule: MinedRule) -> Html:
    words = condition_texts(rule.conditions) or [ALWAYS]
    then = element("b", class_text(rule.classes[rule.label], rule.classes, rule.target))
    texts = [joined([_small("and" if index else "if"), " ", word]) for index, word in enumerate(words)]
    return joined([*texts, joined([_small("then"), " ", then])], " ")


def _also(rule: MinedRule) -> list[Html]:
    """Other wordings, in a line below the sentence."""
    text = also_text(rule.stand_ins, rule.displaced, rule.displaced_total) if rule.certificate else None
    return [] if text is None else [element("div", text, style=f"font-size:.85em;{_SOFT}")]


def _small(word: str) -> Html:
    return element("span", word, style=_SOFT)


def _plain(rule: Rule) -> dict[str, Any]:
    return {field.name: getattr(rule, field.name) for field in fields(Rule)}
