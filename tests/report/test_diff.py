from handmade import make_document, make_rule
from hypothesis import given
from hypothesis import strategies as st

from maabo_dist.contract.conditions import Condition, Op
from maabo_dist.report.diff import diff_documents, simpson

OLD, NEW = Condition("age", Op.AT_MOST, 27.5), Condition("age", Op.AT_MOST, 30.0)
PORT, SEX = Condition("port", Op.IS, "C"), Condition("sex", Op.IS, "female")


def ids(entries):
    return [entry["id"] for entry in entries]


def pairs(entries):
    return [(entry["one"]["id"], entry["other"]["id"]) for entry in entries]


def test_a_document_does_not_differ_from_itself():
    document = make_document(make_rule(OLD), make_rule(PORT, number=2), make_rule(PORT, number=3, label=0))
    difference = diff_documents(document, document)

    assert (difference["equal"], difference["same"]) == (True, 3)
    assert not any(difference[name] for name in ("changed", "moved", "only_in_one", "only_in_other"))


def test_the_order_of_conditions_and_of_rules_makes_no_difference():
    one = make_document(make_rule(OLD, PORT), make_rule(SEX, number=2))
    other = make_document(make_rule(SEX), make_rule(PORT, OLD, number=2))
    difference = diff_documents(one, other)

    assert difference["same"] == 2


def test_other_evidence_for_the_same_rule_is_a_change():
    difference = diff_documents(make_document(make_rule(OLD)), make_document(make_rule(OLD, counts=(1, 9))))

    assert pairs(difference["changed"]) == [("R1", "R1")]
    assert [difference["changed"][0][side]["train"]["precision"] for side in ("one", "other")] == [0.8, 0.9]


def test_a_threshold_that_is_another_has_moved_to_the_closest():
    far = Condition("age", Op.AT_MOST, 60.0)
    one = make_document(make_rule(OLD, PORT), make_rule(SEX, number=2))
    other = make_document(make_rule(far, PORT), make_rule(NEW, PORT, number=2))
    difference = diff_documents(one, other)

    assert pairs(difference["moved"]) == [("R1", "R2")]
    assert (ids(difference["only_in_one"]), ids(difference["only_in_other"])) == (["R2"], ["R1"])


def test_a_rule_of_one_side_names_the_most_similar_of_the_other():
    difference = diff_documents(
        make_document(make_rule(OLD, PORT)), make_document(make_rule(SEX), make_rule(NEW, number=2))
    )

    assert difference["only_in_one"][0]["similar"] == {
        "id": "R2",
        "text": "IF age ≤ 30 THEN survived = 1",
        "class": "1",
        "similarity": 1.0,
    }
    assert difference["only_in_other"][0]["similar"] is None


def test_a_threshold_that_crosses_the_value_of_missing_cells_has_moved():
    filled = Condition("age", Op.AT_MOST, 30.0, or_missing=True)
    difference = diff_documents(make_document(make_rule(OLD, PORT)), make_document(make_rule(filled, PORT)))

    assert pairs(difference["moved"]) == [("R1", "R1")]
    assert difference["only_in_one"] == difference["only_in_other"] == []


def test_another_class_is_another_rule():
    difference = diff_documents(make_document(make_rule(OLD)), make_document(make_rule(OLD, label=0)))

    assert (difference["same"], ids(difference["only_in_one"]), ids(difference["only_in_other"])) == (0, ["R1"], ["R1"])


conditions = st.lists(st.sampled_from([OLD, NEW, PORT, SEX]), max_size=3, unique=True)
lists = st.lists(st.tuples(conditions, st.integers(0, 1)), max_size=5)


@given(lists, lists)
def test_every_rule_is_in_the_diff_and_the_reverse_diff_is_its_mirror_image(left, right):
    one, other = (
        make_document(*(make_rule(*each, number=n + 1, label=label) for n, (each, label) in enumerate(side)))
        for side in (left, right)
    )
    difference, back = diff_documents(one, other), diff_documents(other, one)

    both = difference["same"] + len(difference["changed"]) + len(difference["moved"])
    assert both + len(difference["only_in_one"]) == len(left)
    assert both + len(difference["only_in_other"]) == len(right)
    assert (back["same"], len(back["moved"])) == (difference["same"], len(difference["moved"]))


def test_the_empty_set_is_in_every_set():
    assert simpson(frozenset(), frozenset({("a", Op.IS, "b")})) == 1.0
