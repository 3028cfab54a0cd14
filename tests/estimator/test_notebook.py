"""The HTML of a miner and its rules in a notebook."""

import pickle
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.utils import estimator_html_repr

from maabo_dist import RuleMiner
from maabo_dist.errors import SettingsError
from maabo_dist.report.html import report_page
from maabo_dist.report.notebook import MAX_ROWS, rules_html

HOSTILE = "<script>alert('$')</script>\n&\"_"


class Parts(HTMLParser):
    """The elements and the texts of an HTML fragment."""

    def __init__(self, html):
        super().__init__()
        self.names, self.text, self.cells = [], "", []
        self.feed(html)
        self.close()

    def handle_starttag(self, name, attributes):
        self.names.append(name)
        if name in {"td", "th"}:
            self.cells.append("")

    def handle_data(self, text):
        self.text += text
        if self.cells:
            self.cells[-1] += text


def a_table(rows=400, name="fare", classes=("no", "yes")):
    draw = np.random.default_rng(3)
    frame = pd.DataFrame(
        {name: draw.uniform(0, 100, rows), "sex": draw.choice(["f", "m"], rows), "x": draw.random(rows)}
    )
    yes = (frame[name] > 50) & (frame["sex"] == "f")
    return frame, np.where(yes ^ (draw.random(rows) < 0.03), classes[1], classes[0])


@pytest.fixture(scope="module")
def miner():
    return RuleMiner(subset_size=2, min_samples=20, holdout=0.2).fit(*a_table())


def test_before_fitting_a_notebook_shows_the_diagram_of_scikit_learn():
    unfitted = RuleMiner(trees=7)

    assert "sk-top-container" in unfitted._repr_html_()
    assert unfitted._repr_mimebundle_()["text/plain"] == repr(unfitted)
    assert unfitted._repr_html_().count("<") == estimator_html_repr(unfitted).count("<")


def test_after_fitting_it_shows_the_rules_with_their_evidence(miner):
    cells = Parts(miner._repr_html_()).cells
    first, rule = cells.index("R1"), miner.rules_[0]
    parts = (rule.train, rule.validation, rule.holdout)

    sentence, *numbers = cells[first + 1 : first + 5]

    assert sentence.lower().partition("also")[0] == rule.text.lower()
    assert numbers == [
        f"{rule.n:,}",
        " → ".join(f"{part.precision:.2f}" for part in parts) + f", {rule.verdict.value}",
        f"{rule.holdout.lift:.2f}",
    ]
    assert miner._repr_mimebundle_()["text/html"] == miner._repr_html_()


def test_there_is_no_html_if_scikit_learn_is_set_to_show_text(miner):
    with sklearn.config_context(display="text"):
        assert not hasattr(miner, "_repr_html_")
        assert "text/html" not in miner._repr_mimebundle_()


def test_a_rule_shows_itself_and_equals_the_rule_without_names(miner):
    rule, plain = miner.rules_[0], miner.result_.rules[0]

    assert "R1" in Parts(rule._repr_html_()).cells
    assert "R2" not in Parts(rule._repr_html_()).cells
    assert rule == plain
    assert plain == rule
    assert hash(rule) == hash(plain)
    assert rule != miner.result_.rules[1]
    assert miner.rules_ == miner.result_.rules
    assert rule.text == miner.get_rules()["rule"][0]


def test_names_from_data_stay_text():
    miner = RuleMiner(subset_size=2, min_samples=20).fit(*a_table(name=HOSTILE, classes=("no", HOSTILE)))

    html = Parts(miner._repr_html_())

    assert "script" not in html.names
    assert "<script>alert('$')</script>\\n&\"_" in html.text


def test_long_rule_lists_show_the_first_rules_and_count_the_others(miner):
    many = miner.rules_[:1] * (MAX_ROWS + 3)

    html = Parts(rules_html(many, "title", "none"))

    assert html.cells.count("R1") == MAX_ROWS
    assert "3 more" in html.text


@pytest.mark.parametrize(
    ("preset", "reason"),
    [
        ("paper", "No leaf has 10,000 training rows"),
        ("auto", "certified rules were left out by --min-samples 10000."),
    ],
)
def test_a_result_without_rules_is_printed_with_the_reason(preset, reason):
    miner = RuleMiner(subset_size=2, min_samples=10_000, preset=preset).fit(*a_table())

    assert reason in Parts(miner._repr_html_()).text


def test_rules_have_their_adjusted_p_value_and_the_verdict_of_held_out_rows(miner):
    rules = miner.get_rules()

    assert rules["verdict"].tolist() == [rule.verdict.value for rule in miner.rules_]
    assert rules["adjusted_p"].tolist() == [rule.certificate.p for rule in miner.rules_]
    assert rules["adjusted_p"].max() <= 0.05
    assert "verdict" not in RuleMiner(subset_size=2).fit(*a_table()).get_rules()


def test_a_fitted_miner_has_the_data_of_a_report(miner):
    document, figures = miner.document(), miner.figures()

    assert figures["digest"] == document.digest == miner.result_.digest
    assert [entry["id"] for entry in figures["rules"]] == [rule.id for rule in miner.rules_]
    assert "R1" in report_page(document, figures)
    assert miner.figures() is figures


def test_a_pickled_miner_keeps_its_figures_but_not_the_table():
    miner = RuleMiner(subset_size=2, min_samples=20, trees=3).fit(*a_table())
    early = pickle.loads(pickle.dumps(miner))
    figures = miner.figures()
    late = pickle.loads(pickle.dumps(miner))

    assert late.figures() == figures
    assert late.rules_ == miner.rules_
    with pytest.raises(SettingsError, match="no table to draw from"):
        early.figures()
