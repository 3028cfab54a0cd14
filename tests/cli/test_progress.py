import signal
from dataclasses import replace

import pytest

from maabo_dist.cli.progress import SHUFFLES, Display, LogDisplay, RateEstimate, Snapshot, graceful_interrupt
from maabo_dist.mining.local import Progress


def at(trees, seconds, planned=100):
    return Progress(trees, planned, best_score=0.75, reliable=3, seconds=seconds)


def test_the_time_left_ignores_the_time_before_the_first_report():
    rate = RateEstimate()

    assert rate.format_time_left(Snapshot(10, 100, 30.0, "")) == ""
    assert rate.format_time_left(Snapshot(20, 100, 31.0, "")) == "8 s left"


@pytest.mark.parametrize(("seconds", "text"), [(1, "1 s left"), (300, "5 min left"), (36_000, "10.0 h left")])
def test_the_time_left_has_a_suitable_unit(seconds, text):
    rate = RateEstimate()
    rate.format_time_left(Snapshot(0, 100, 0.0, ""))

    assert rate.format_time_left(Snapshot(50, 100, seconds, "")) == text


def test_a_log_gets_at_most_one_line_every_ten_seconds():
    lines, now = [], [0.0]
    display = LogDisplay(lines.append, clock=lambda: now[0])
    for second in range(25):
        now[0] = float(second)
        display.report(at(second + 1, seconds=second))

    assert lines == [
        "11 of 100 trees, best F1 0.750, 3 reliable, 1 min left",
        "21 of 100 trees, best F1 0.750, 3 reliable, 1 min left",
    ]


def test_a_log_shows_the_searches_on_shuffled_labels():
    lines, now = [], [0.0]
    display = LogDisplay(lines.append, clock=lambda: now[0])
    for done in range(3):
        now[0] = 12.0 * (done + 1)
        display.report(replace(at(100, now[0]), shuffles=done, planned_shuffles=24))

    assert lines == [
        "shuffled search 1 of 24",
        "shuffled search 2 of 24, 5 min left",
        "shuffled search 3 of 24, 4 min left",
    ]


def test_the_time_left_of_the_search_ignores_the_screening_before_it():
    rate = RateEstimate()
    for done, seconds in [(0, 0.0), (400, 8.0)]:
        screening = rate.format_time_left(Snapshot(done, 1000, seconds, "", unit="pairs"))

    assert screening == "12 s left"
    assert rate.format_time_left(Snapshot(0, 100, 20.0, "")) == ""
    assert rate.format_time_left(Snapshot(50, 100, 25.0, "")) == "5 s left"


@pytest.mark.parametrize(
    ("snapshot", "text"),
    [
        (Snapshot(120, 455, 1.0, ""), "120/455 trees"),
        (Snapshot(1200, None, 1.0, ""), "1,200 trees"),
        (Snapshot(5_000_000, 12_497_500, 1.0, "", unit="pairs"), "40 % of 12,497,500 pairs"),
        (Snapshot(6, 24, 1.0, "", unit=SHUFFLES), "shuffled search 7 of 24"),
        (Snapshot(24, 24, 1.0, "", unit=SHUFFLES), "shuffled search 24 of 24"),
    ],
)
def test_the_count_names_its_unit(snapshot, text):
    assert snapshot.count == text


def test_a_job_of_unknown_size_has_no_time_left():
    rate = RateEstimate()

    assert rate.format_time_left(Snapshot(0, None, 0.0, "")) == ""
    assert rate.format_time_left(Snapshot(10, None, 5.0, "")) == ""


def test_a_log_gets_a_line_when_the_activity_changes():
    lines = []
    display = LogDisplay(lines.append)
    for activity in ("queued", "queued", "searching"):
        display.set_activity(activity)

    assert lines == ["queued", "searching"]


def test_the_first_ctrl_c_stops_after_the_batch_and_the_second_immediately():
    display, original = Display(), signal.signal(signal.SIGINT, signal.default_int_handler)
    with graceful_interrupt(display):
        before = display.report(at(1, seconds=1))
        signal.raise_signal(signal.SIGINT)
        after = display.report(at(2, seconds=2))
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    restored = signal.signal(signal.SIGINT, original)

    assert (before, after) == (False, True)
    assert restored is signal.default_int_handler


def test_a_search_and_its_repeats_have_one_count_and_one_time_left():
    lines, now = [], [0.0]
    display = LogDisplay(lines.append, clock=lambda: now[0])
    display.repeats = 3
    display.report(at(50, seconds=5.0))
    display.report(at(100, seconds=10.0))
    now[0] = 15.0
    display.report_repeat(1, at(50, seconds=5.0))
    now[0] = 30.0
    display.report_repeat(2, at(100, seconds=20.0))

    assert lines == [
        "150 of 400 trees, repeat 1 of 3, best F1 0.750, 3 reliable, 25 s left",
        "300 of 400 trees, repeat 2 of 3, best F1 0.750, 3 reliable, 12 s left",
    ]
