"""The briefing: what the findings of a document say, in the words and the order that all reports begin with."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from maabo_dist._util.text import format_count, printable
from maabo_dist.contract.coverage import ClassCoverage
from maabo_dist.contract.result import DatasetInfo, ResultDocument
from maabo_dist.contract.rules import RuleRecord, Verdict
from maabo_dist.contract.wording import class_text, conditions_text, predicted_text
from maabo_dist.report.summary import TENTATIVE, split_failed, verdict_text
from maabo_dist.rules.statistics import wilson

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
# Classes whose shares the headline names.
_MAX_CLASSES = 2
# A share of fewer rows is given as it was counted: `5 of 7`. So is that of somewhat more rows if it is all or none.
_FEW_ROWS, _FEW_EQUAL_ROWS = 20, 100
_UNSEEN = "on rows the search never saw"

TENTATIVE_VERDICT = "tentative"
# A weaker finding whose class is clearly more frequent than usual all the same.
CLEARLY_WEAKER = "weaker but clear"


class VerdictWords(NamedTuple):
    """The words for a verdict: its name, what it means, and phrases for one finding and for several."""

    name: str
    meaning: str
    one: str
    several: str


VERDICTS: dict[str, VerdictWords] = {
    Verdict.HELD_UP: VerdictWords(
        "Held up",
        "Some rows were kept away from the search. Among them, too, the class is more frequent under these conditions "
        "than usual, and by more than chance explains.",
        "held up",
        "held up",
    ),
    Verdict.NOT_TESTED: VerdictWords(
        "Not tested",
        "No rows, or too few with these conditions, were kept away from the search. Chance does not explain the "
        "finding, given everything the search tried, but expect a somewhat lower figure on new rows.",
        "could not be tested",
        "could not be tested",
    ),
    Verdict.WEAKER: VerdictWords(
        "Weaker",
        "On rows that were kept away from the search, the class is more frequent than usual, but less so than among "
        "the rows that were searched. The difference may be small, such as 97 in place of 100 of 100. Rely on the "
        "figures from the unseen rows, and on their interval: the card shows both.",
        "was weaker",
        "were weaker",
    ),
    TENTATIVE_VERDICT: VerdictWords(
        "Tentative",
        f"{TENTATIVE[0].upper()}{TENTATIVE[1:]}. It was not tested on unseen rows.",
        "is tentative",
        "are tentative",
    ),
    Verdict.FAILED: VerdictWords(
        "Failed",
        "On rows that were kept away from the search, the class is no more frequent under these conditions than "
        "usual. Do not rely on this finding.",
        "failed",
        "failed",
    ),
}


class Comparison(NamedTuple):
    """How frequent a rule's class is where the rule holds, and usually."""

    # Of `rows` rows that the rule covers, `hits` have its class; `low` to `high` is the 95 % interval of the share.
    hits: int
    rows: int
    low: float
    high: float
    base: float
    # True if the search never saw these rows.
    unseen: bool
    # The share among the rows that were searched, if `unseen`.
    mined: float | None

    @property
    def share(self) -> float:
        """The share of the class."""
        return self.hits / self.rows if self.rows else 0.0

    @property
    def is_small(self) -> bool:
        """True if so few rows are counted that their number says more than a share of 100."""
        return self.rows < (_FEW_EQUAL_ROWS if self.hits in {0, self.rows} else _FEW_ROWS)

    @property
    def is_clear(self) -> bool:
        """True if the class is more frequent than usual even at the lower end of the interval."""
        return self.low > self.base

    @property
    def share_words(self) -> tuple[str, str]:
        """The share and its noun: `95 of 100` rows; of few rows `all 18 unseen` rows, `5 of 7 unseen` rows."""
        if not self.is_small:
            return of_hundred(self.share), "rows"
        rows = f"{self.rows} unseen" if self.unseen else f"{self.rows}"
        share = f"all {rows}" if self.hits == self.rows else f"{self.hits or 'none'} of {rows}"
        return share, "rows" if self.rows > 1 else "row"

    @property
    def label(self) -> str:
        """`95 of 100`, `18 of 18`."""
        return f"{self.hits} of {self.rows}" if self.is_small else of_hundred(self.share)


def compare(rule: RuleRecord, dataset: DatasetInfo) -> Comparison:
    """Compare on the rows that were held out, if the rule was tested there, and on all others if not."""
    unseen = rule.holdout is not None and rule.holdout.n > 0 and rule.verdict is not Verdict.NOT_TESTED
    hits, rows = sum(part.counts[rule.label] for part in (rule.train, rule.validation)), rule.mined_n
    if unseen and rule.holdout is not None:
        hits, rows = rule.holdout.counts[rule.label], rule.holdout.n
    low, high = wilson(hits, rows, dataset.design_effect or 1.0)
    base = dataset.base_rates[rule.label] or 0.0
    return Comparison(hits, rows, low or 0.0, 1.0 if high is None else high, base, unseen, rule.mined_precision)


def useful_order(document: ResultDocument) -> list[RuleRecord]:
    """Return the rules that did not fail, as they were selected: those that hardly hold last, then tentative ones."""
    passed = split_failed(document)[0]
    return sorted(passed, key=lambda rule: _rank(rule, document.dataset)) if document.lists_findings else passed


def in_order(document: ResultDocument) -> tuple[list[RuleRecord], list[RuleRecord]]:
    """Return the rules in the order of the briefing, and the findings that failed on held-out rows apart from them."""
    return useful_order(document), split_failed(document)[1]


def _rank(rule: RuleRecord, dataset: DatasetInfo) -> int:
    """2 for a tentative finding, 1 for one that lost most of its advantage on unseen rows, 0 for all others."""
    if verdict_text(rule) == TENTATIVE_VERDICT:
        return 2
    comparison = compare(rule, dataset)
    kept = comparison.share - comparison.base >= ((comparison.mined or 0.0) - comparison.base) / 2
    return 0 if rule.verdict is not Verdict.WEAKER or (kept and comparison.is_clear) else 1


def of_hundred(share: float) -> str:
    """`96 of 100`; never all or none of them unless it is so."""
    rounded = round(100 * share)
    if rounded == 100 and share < 1:
        return "more than 99 of 100"
    return "fewer than 1 of 100" if rounded == 0 and share > 0 else f"{rounded} of 100"


def finding_sentence(rule: RuleRecord, dataset: DatasetInfo) -> str:
    """`96 of 100 rows with sex = female have survived = 1; usually 38 of 100.`."""
    comparison = compare(rule, dataset)
    conditions = f" with {conditions_text(rule.premise)}" if rule.premise else ""
    share, noun = comparison.share_words
    text = f"{share} {noun}{conditions} have {predicted_text(rule, dataset)}; usually {of_hundred(comparison.base)}."
    return f"{text[0].upper()}{text[1:]}"


def covered_text(rule: RuleRecord, document: ResultDocument) -> str:
    """`170 rows, 47 % of those with survived = 1`."""
    parts = rule.supports.values()
    rows, hits = sum(part.n for part in parts), sum(part.counts[rule.label] for part in parts)
    text = f"{format_count(rows, 'row')} covered"
    of_class = next((each.rows for each in _classes(document) if each.label == rule.label), 0)
    if not of_class:
        return text
    return f"{text}, {percent(hits / of_class)} of those with {predicted_text(rule, document.dataset)}"


def headline(document: ResultDocument) -> str:
    """Return what was found and how sure it is, in one sentence."""
    passed, failed = in_order(document)
    noun, so_far = document.noun, " so far" if document.running else ""
    target = printable(document.dataset.target)
    if not passed:
        none = f"No {noun}s{so_far} for {target}"
        if not failed:
            return none
        return f"{none}: {_number(len(failed))} failed {_UNSEEN}"
    count = format_count(len(passed), noun)
    shares = _shares_text(document, passed)
    verb = "explains" if len(passed) == 1 else "explain"
    text = f"{count}{so_far} {verb} {shares}" if shares else f"{count}{so_far} for {target}"
    verdicts = _verdicts_text([*passed, *failed], document) if document.lists_findings else ""
    return f"{text}; {verdicts}" if verdicts else text


def percent(share: float) -> str:
    """`71 %`; with a decimal below 10 % and above 99 %, so that 0 % and 100 % are exact."""
    return f"{100 * share:.{1 if 0 < share < 0.1 or 0.99 < share < 1 else 0}f} %"


def _classes(document: ResultDocument) -> Sequence[ClassCoverage]:
    return document.coverage.classes if document.coverage else ()


def _shares_text(document: ResultDocument, rules: Sequence[RuleRecord]) -> str:
    """`71 % of the rows with churned = yes`; of many classes, all rows together."""
    by_label = {each.label: each for each in _classes(document)}
    named = [by_label[label] for label in dict.fromkeys(rule.label for rule in rules) if label in by_label]
    if not named:
        return ""
    dataset = document.dataset
    if len(named) <= _MAX_CLASSES:
        texts = [class_text(each.label, dataset.classes, dataset.target) for each in named]
        shares = [f"{percent(each.share)} of the rows with {text}" for each, text in zip(named, texts, strict=True)]
        return " and ".join([shares[0], *(share.replace("the rows", "those", 1) for share in shares[1:])])
    rows, explained = (sum(getattr(each, name) for each in _classes(document)) for name in ("rows", "explained"))
    without = len(dataset.classes) - len(named)
    having = f"{len(named)} of the {len(dataset.classes)} classes" if without else f"all {len(named)} classes"
    return f"{percent(explained / rows)} of the rows, in {having}"


def _verdicts_text(rules: Sequence[RuleRecord], document: ResultDocument) -> str:
    """`all three held up on rows the search never saw`; `two held up on … never saw, one was weaker and one failed`."""
    verdicts = Counter(_headline_verdict(rule, document.dataset) for rule in rules)
    if not document.dataset.parts.holdout:
        return _untested_text(len(rules), verdicts[TENTATIVE_VERDICT])
    if len(verdicts) == 1:
        (verdict, count) = next(iter(verdicts.items()))
        if verdict == Verdict.NOT_TESTED and count > 1:
            return f"none could be tested {_UNSEEN}"
        return f"{_all(count)} {_phrase(verdict, count)} {_UNSEEN}"
    held = verdicts.pop(Verdict.HELD_UP, 0)
    names = [CLEARLY_WEAKER, *VERDICTS]
    others = [f"{_number(verdicts[name])} {_phrase(name, verdicts[name])}" for name in names if verdicts[name]]
    return ", ".join([f"{_number(held) if held else 'none'} held up {_UNSEEN}", *others[:-1]]) + f" and {others[-1]}"


def _untested_text(count: int, tentative: int) -> str:
    if count == 1:
        return f"chance does not explain it, but it was not tested {_UNSEEN}" + (
            " and is tentative" if tentative else ""
        )
    text = f"chance does not explain them, but none was tested {_UNSEEN}"
    return f"{text}, and {_number(tentative)} {_phrase(TENTATIVE_VERDICT, tentative)}" if tentative else text


def _headline_verdict(rule: RuleRecord, dataset: DatasetInfo) -> str:
    """The verdict of a finding; of a weaker one, whether it is still clearly better than chance."""
    is_clear = rule.verdict is Verdict.WEAKER and compare(rule, dataset).is_clear
    return CLEARLY_WEAKER if is_clear else verdict_text(rule)


def _phrase(verdict: str, count: int) -> str:
    if verdict == CLEARLY_WEAKER:
        return f"{VERDICTS[Verdict.WEAKER].one if count == 1 else VERDICTS[Verdict.WEAKER].several} but still clear"
    return VERDICTS[verdict].one if count == 1 else VERDICTS[verdict].several


def _all(number: int) -> str:
    return {1: "it", 2: "both"}.get(number, f"all {_number(number)}")


def _number(number: int) -> str:
    return _NUMBERS[number] if number < len(_NUMBERS) else f"{number:,}"
