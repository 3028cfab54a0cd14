"""Modules of the browser interface, run in a real browser without a server: texts of conditions and rule cards."""

import numpy as np
import pytest

from maabo_dist.contract.conditions import Condition, DatePart, Op, condition_records
from maabo_dist.contract.selection import CertificateInfo
from maabo_dist.contract.wording import condition_texts
from maabo_dist.report.summary import certificate_text
from scheduler.api.ui import read_module

pytestmark = pytest.mark.xdist_group("browser")

HOME = "http://page.test"


@pytest.fixture(scope="module")
def page(browser):
    """An empty page that can import the modules."""
    context = browser.new_context()

    def serve(route):
        name = route.request.url.removeprefix(f"{HOME}/")
        if name:
            route.fulfill(body=read_module(name.removesuffix(".js")), content_type="text/javascript")
        else:
            route.fulfill(body="<!doctype html><title>x</title>", content_type="text/html")

    context.route(f"{HOME}/**", serve)
    page = context.new_page()
    page.goto(f"{HOME}/")
    yield page
    context.close()


LEVELS = ("C", "Q", "S", "Zürich", "a or b", "7", "8", "9", "10")


def draw_conditions(rng):
    """Conditions of all kinds: bounds, levels, sets of levels, missing cells, and parts of dates."""
    part = DatePart(str(rng.choice(["year", "month", "weekday", "hour", "days"])), "ISO8601", "2023-02-27")
    low = int(rng.integers(1, 6))
    high = low + int(rng.integers(0, 3))
    levels = tuple(LEVELS[: int(rng.integers(1, len(LEVELS) + 1))])
    missing = bool(rng.integers(0, 2))
    number = float(10.0 ** rng.integers(-6, 9) * rng.random())
    kinds = [
        [Condition("joined", Op.ABOVE, low - 0.5, missing, part)],
        [Condition("joined", Op.AT_MOST, high + 0.5, missing, part)],
        [
            Condition("joined", Op.ABOVE, low - 0.5, False, part),
            Condition("joined", Op.AT_MOST, high + 0.5, False, part),
        ],
        [Condition("port", Op.IN, levels, missing)],
        [Condition("port", Op.NOT_IN, levels, missing)],
        [Condition("port", Op.IS, "C", missing), Condition("port", Op.IS_NOT, "Q")],
        [Condition("age", Op.ABOVE, number), Condition("age", Op.AT_MOST, number * 1.0000001)],
        [Condition("age", Op.AT_MOST, -number, missing)],
        [Condition("calls", Op.AT_LEAST, float(low)), Condition("calls", Op.AT_MOST, float(high))],
        [Condition("calls", Op.AT_LEAST, float(low * 10 ** int(rng.integers(0, 9))), missing)],
        [Condition("fare", Op.ABOVE, round(number, 4)), Condition("fare", Op.AT_MOST, round(number, 4) + 3)],
        [Condition("age", Op.IS_MISSING, None), Condition("port", Op.IS_PRESENT, None)],
    ]
    return [condition for index in rng.permutation(len(kinds))[:4] for condition in kinds[index]]


def test_conditions_read_as_in_the_other_outputs(page):
    rng = np.random.default_rng(5)
    rules = [draw_conditions(rng) for _ in range(200)]

    texts = page.evaluate(
        "async (rules) => { const { conditionTexts } = await import('/format.js'); return rules.map(conditionTexts); }",
        [[record.to_json() for record in condition_records(conditions)] for conditions in rules],
    )

    for conditions, shown in zip(rules, texts, strict=True):
        assert shown == condition_texts(conditions)


@pytest.mark.parametrize(
    ("conditions", "text"),
    [
        ([Condition("port", Op.IN, ("C", "Q"))], "port is C or Q"),
        ([Condition("class", Op.AT_LEAST, 3.0)], "class ≥ 3"),
        ([Condition("class", Op.AT_LEAST, 2.0), Condition("class", Op.AT_MOST, 2.0)], "class = 2"),
        ([Condition("class", Op.AT_LEAST, 2.0), Condition("class", Op.AT_MOST, 3.0)], "2 ≤ class ≤ 3"),
        ([Condition("fare", Op.ABOVE, 32.345678)], "fare > 32.345678"),
        (
            [Condition("port", Op.NOT_IN, ("C", "Q", "S"), or_missing=True)],
            "(port is other than C, Q or S, or missing)",
        ),
        ([Condition("port", Op.IN, LEVELS)], "port is C, Q, S … (6 more)"),
        ([Condition("d", Op.ABOVE, 5.5, part=DatePart("weekday", "ISO8601", ""))], "d: weekday ≥ Saturday"),
        ([Condition("d", Op.AT_MOST, 3.5, part=DatePart("month", "ISO8601", ""))], "d: month ≤ March"),
        ([Condition("d", Op.AT_MOST, 31.5, part=DatePart("days", "ISO8601", "2024-02-27"))], "d ≤ 2024-03-29"),
    ],
)
def test_sets_of_levels_and_parts_of_dates_are_words(page, conditions, text):
    shown = page.evaluate(
        "async (conditions) => (await import('/format.js')).conditionTexts(conditions)",
        [record.to_json() for record in condition_records(conditions)],
    )

    assert shown == [text] == condition_texts(conditions)


def rule(text, verdict, **fields):
    support = {"rows": 10, "n": 5, "counts": {"a": 4, "b": 1}, "precision": 0.8, "recall": 0.5, "lift": 2.0}
    return {
        "id": "R1",
        "text": text,
        "class": "a",
        "n": 5,
        "counts": {"a": 4, "b": 1},
        "gini": 0.3,
        "verdict": verdict,
        "conditions": [{"feature": text, "op": ">", "value": 1}],
        "train": support,
        "validation": support,
        "holdout": support,
        "certificate": {"p": 0.012, "method": "bound"},
        "stand_ins": [],
        "displaced": [],
        "displaced_total": 0,
        **fields,
    }


def list_texts(page, rules):
    """The texts of the items of the rule list."""
    document = {"rules": rules, "dataset": {"classes": ["a", "b"], "target": "y", "base_rates": {"a": 0.35}}}
    return page.evaluate(
        """async (document) => {
            const { ruleList } = await import('/rule-list.js');
            const list = ruleList();
            list.show(document);
            list.show(document);
            return [...list.element.children].map((item) => item.textContent);
        }""",
        document,
    )


def test_failed_findings_stand_apart_after_the_others(page):
    cards = list_texts(page, [rule("x", "held up"), rule("y", "failed"), rule("z", "failed")])

    assert len(cards) == 4
    assert cards[0].startswith("✓ Held up4 of 5 unseen rows with x > 1 have y = a; usually 35 of 100.")
    assert cards[1] == "Did not hold up on unseen rows"
    assert [card[:37] for card in cards[2:]] == [f"✕ Failed4 of 5 unseen rows with {name} > 1" for name in "yz"]


def test_cards_have_the_verdict_the_p_value_and_other_wordings(page):
    stand_in = {"column": "x17", "instead_of": "x", "correlation": 0.912}
    others = [{"text": "u > 3 and v = q"}]
    weaker, seen_as = list_texts(
        page,
        [
            rule("x", "weaker than in training", stand_ins=[stand_in], displaced=others, displaced_total=5),
            rule("y", "not tested", displaced=others, displaced_total=1),
        ],
    )

    assert "Weaker on 5 rows the search never saw than on the rows it used." in weaker
    assert "Probability that chance gives the search a rule this strong: 0.012." in weaker
    assert weaker.endswith("Also x17 in place of x, correlation 0.91; 4 more.")
    assert seen_as.endswith("Also seen as u > 3 and v = q.")


def test_reasons_name_settings_by_their_labels(page):
    reasons = page.evaluate(
        """async (document) => {
            const { reasons } = await import('/rule-list.js');
            return reasons(document).map((element) => element.textContent);
        }""",
        {"no_rules_reason": "Nothing.", "missing_classes": [{"text": "No finding for y = a; --max-p 0.3 shows it."}]},
    )

    assert reasons == ["Nothing.", "No finding for y = a; “Largest adjusted p” = 0.3 shows it."]


@pytest.mark.parametrize(("shuffles", "planned"), [(0, 0), (24, 24), (3, 24), (1, 24)])
def test_the_legend_says_how_rules_were_certified_as_the_terminal_does(page, shuffles, planned):
    certificate = CertificateInfo(level=0.05, shuffles=shuffles, planned=planned, seconds=1.5, stopped=False)

    text = page.evaluate(
        "async (document) => (await import('/rule-list.js')).legend(document)",
        {"rules": [], "certificate": certificate.to_json()},
    )

    assert text == f"Certified: {certificate_text(certificate)}."


RUNNING = {"state": "running", "wanted": "run", "trees": 10, "planned": 100}
LOAD = {"schedulers": 1, "processes": 8, "tasks": 4, "waiting": 0, "busy": 0, "busyShare": 0.9, "running": 0}


@pytest.mark.parametrize(
    ("job", "load", "quiet", "kind", "words"),
    [
        ({"state": "done"}, {}, 0, None, ""),
        ({}, {}, 1, None, ""),
        ({"wanted": "cancel"}, {}, 1, "info", "Cancelling"),
        ({"wanted": "pause"}, {}, 1, "info", "Pausing"),
        ({"state": "paused", "wanted": "pause"}, {}, 900, "wait", "Press Resume"),
        (
            {"obstacle": {"kind": "workers", "text": "no worker has started a task", "remedy": "Start workers."}},
            {},
            1,
            "stuck",
            "No worker has started a task. Start workers.",
        ),
        ({"obstacle": {"kind": "later", "text": "x"}}, {}, 1, "stuck", "X."),
        ({"state": "queued"}, {"schedulers": 0}, 1, "stuck", "Start one: `python -m scheduler`"),
        ({}, {"processes": 0, "busyShare": None}, 1, "stuck", "celery -A workers.app worker"),
        ({}, {"outage": "Redis cannot be reached."}, 1, "stuck", "Redis cannot be reached. Ask the operator"),
        ({"state": "queued"}, {"running": 3}, 1, "wait", "3 other jobs are running"),
        ({"state": "queued"}, {}, 1, "info", "Waiting for a scheduler."),
        ({"state": "queued"}, {}, 60, "wait", "Waiting for a scheduler for 1 min."),
        ({}, {}, 45, "wait", "No progress for 45 s: the workers are busy, and this table takes long."),
        ({}, {"busyShare": None, "tasks": None, "schedulers": None}, 45, "wait", "No progress for 45 s. The table"),
        ({}, {"busyShare": 0, "waiting": 4}, 45, "stuck", "4 tasks wait, and no worker takes them."),
        ({}, {"busyShare": 0}, 45, "stuck", "have taken 4 tasks and do not answer"),
        ({}, {"busyShare": 0, "tasks": 0}, 45, "stuck", "no task is in progress"),
        ({}, {"busyShare": 0.2}, 1, "info", "batches in flight"),
    ],
)
def test_the_status_says_what_a_job_waits_for_and_what_to_do(page, job, load, quiet, kind, words):
    status = page.evaluate(
        "async ([job, load, quiet]) => (await import('/job-status.js')).explainStatus(job, load, quiet)",
        [RUNNING | job, LOAD | load, quiet],
    )

    assert (status and status["kind"]) == kind
    assert words in (f"{status['text']} {status['advice']}" if status else "")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "a few seconds"),
        (9.9, "a few seconds"),
        (14, "about 10 seconds"),
        (48, "about 50 seconds"),
        (56, "about 1 minute"),
        (59, "about 1 minute"),
        (200, "about 3 minutes"),
        (3500, "about 1 hour"),
        (40_000, "about 11 hours"),
        (400_000, "about 5 days"),
    ],
)
def test_estimates_are_no_more_precise_than_they_can_be(page, seconds, text):
    shown = page.evaluate("async (seconds) => (await import('/format.js')).roughDuration(seconds)", seconds)

    assert shown == text


def test_a_user_decides_about_each_column_in_the_end(page):
    features = [
        {"name": "id", "use": "identifier"},
        {"name": "x", "use": "feature"},
        {"name": "future", "use": "feature"},
        {"name": "y", "use": "feature"},
    ]
    values = page.evaluate(
        """async (dataset) => {
            const { columnChoice } = await import('/column-choice.js');
            const choice = columnChoice(dataset);
            const values = [choice.value()];
            choice.addLeaks(["future"]);
            values.push(choice.value());
            choice.setUsed("x", false);
            values.push(choice.value());
            choice.setUsed("id", true);
            values.push(choice.value());
            choice.setUsed("future", true);
            choice.setUsed("id", false);
            values.push(choice.value(), choice.addLeaks(["future"]));
            choice.setTarget("x");
            values.push(choice.value());
            return values;
        }""",
        {"features": features, "target": "y"},
    )

    assert values == [
        {"target": "y", "exclude": []},
        {"target": "y", "exclude": ["future"]},
        {"target": "y", "exclude": ["x", "future"]},
        {"target": "y", "include": ["id"]},
        {"target": "y", "exclude": ["x"]},
        False,
        {"target": "x", "exclude": []},
    ]
