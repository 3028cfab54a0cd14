"""The page is well-formed, loads nothing, and shows every name as it stands."""

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from handmade import AGE, make_displaced, make_document, make_held_out, make_repeated, make_rule
from hypothesis import given
from hypothesis import strategies as st

from maabo_dist.report import to_html
from maabo_dist.report.html import CONTENT_POLICY
from maabo_dist.rules.rule import Condition, ConditionTest, Op

VOID = {"meta", "br", "hr", "img", "link", "input"}
HOSTILE = "</style><script>alert(1)</script>\"'&amp;<img src=x onerror=alert(1)>\n\x1b[31m"


class Page(HTMLParser):
    """The elements of a page, and whether each is closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.open, self.words, self.ids = [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.words.append(data)

    @property
    def text(self):
        return " ".join(self.words)


def full_document(name=HOSTILE):
    rules = [
        make_rule(
            Condition(name, Op.IS, name),
            AGE,
            number=number,
            holdout=make_held_out(),
            displaced=(make_displaced(Condition(name, Op.IS_NOT, name)),),
            dropped=(Condition(name, Op.ABOVE, 3.0),),
            dropped_tests=(ConditionTest(1.0, 0.2, 0.4),),
        )
        for number in (1, 2)
    ]
    document = make_document(*rules, name=name, classes=("0", f"1{name}"), target=name, holdout=10, notes=(name,))
    document["rules"] = [rule | {"counts": {"0": 2, f"1{name}": 8}} for rule in document["rules"]]
    return make_repeated(document, 9, 3, consensus=("R1", None))


def test_a_page_shows_header_funnel_rules_evidence_notes_and_digest():
    page = Page(to_html(full_document("port")))

    for said in (
        "Rules that predict",
        "400 leaves",
        "port = port",
        "age ≤ 27.5",
        "held out",
        "0.60–0.98",
        "comes back",
        "abab",
    ):
        assert said in page.text
    assert {"R1", "R2", "rules", "notes", "consensus"} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert page.open == []


def test_hostile_names_stay_text():
    page = Page(to_html(full_document()))

    assert not {"script", "img", "link", "iframe", "object"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in {"src", "style"}]
    assert "<script>alert(1)</script>" in page.text
    assert "\x1b" not in to_html(full_document())


@given(st.text(max_size=30))
def test_no_name_breaks_the_page(name):
    page = Page(to_html(full_document(f"x{name}")))

    assert page.open == []
    assert page.tags == Page(to_html(full_document("x"))).tags


def test_the_page_loads_nothing_and_its_policy_permits_its_own_style_alone():
    text = to_html(full_document())
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL).group(1)

    assert "url(" not in style
    assert "@import" not in style
    assert all(value.startswith("#") for name, value in Page(text).attributes if name == "href")
    assert f"'sha256-{b64encode(sha256(style.encode()).digest()).decode()}'" in CONTENT_POLICY
    assert "unsafe" not in CONTENT_POLICY


@pytest.mark.parametrize("partial", [True, False])
def test_rules_so_far_say_so(partial):
    assert ("Rules so far" in to_html(make_document(make_rule(AGE)), partial=partial)) is partial


def test_without_rules_the_page_says_why():
    assert "No rules." in to_html(make_document())
