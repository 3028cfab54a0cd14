import signal

import pytest

from maabo_dist.cli.progress import Display, LogDisplay, Pace, Standing, polite_interrupt
from maabo_dist.mining.local import Progress


def at(trees, seconds, planned=100):
    return Progress(trees, planned, best_score=0.75, reliable=3, seconds=seconds)


def test_time_left_is_judged_without_the_time_before_the_first_report():
    pace = Pace()

    assert pace.time_left(Standing(10, 100, 30.0, "")) == ""
    assert pace.time_left(Standing(20, 100, 31.0, "")) == "8 s left"


@pytest.mark.parametrize(("seconds", "text"), [(1, "1 s left"), (300, "5 min left"), (36_000, "10.0 h left")])
def test_time_left_is_in_a_unit_that_fits(seconds, text):
    pace = Pace()
    pace.time_left(Standing(0, 100, 0.0, ""))

    assert pace.time_left(Standing(50, 100, seconds, "")) == text


def test_a_log_gets_a_line_every_ten_seconds_at_most():
    lines, now = [], [0.0]
    display = LogDisplay(lines.append, clock=lambda: now[0])
    for second in range(25):
        now[0] = float(second)
        display.report(at(second + 1, seconds=second))

    assert lines == [
        "11 of 100 trees, best F1 0.750, 3 reliable, 1 min left",
        "21 of 100 trees, best F1 0.750, 3 reliable, 1 min left",
    ]


def test_time_left_of_the_search_is_not_judged_by_the_screen_before_it():
    pace = Pace()
    for done, seconds in [(0, 0.0), (400, 8.0)]:
        screening = pace.time_left(Standing(done, 1000, seconds, "", unit="pairs"))

    assert screening == "12 s left"
    assert pace.time_left(Standing(0, 100, 20.0, "")) == ""
    assert pace.time_left(Standing(50, 100, 25.0, "")) == "5 s left"


@pytest.mark.parametrize(
    ("standing", "text"),
    [
        (Standing(120, 455, 1.0, ""), "120/455 trees"),
        (Standing(1200, None, 1.0, ""), "1,200 trees"),
        (Standing(5_000_000, 12_497_500, 1.0, "", unit="pairs"), "40 % of 12,497,500 pairs"),
    ],
)
def test_what_is_counted_is_said(standing, text):
    assert standing.count_text == text


def test_a_job_of_unknown_size_has_no_time_left():
    pace = Pace()

    assert pace.time_left(Standing(0, None, 0.0, "")) == ""
    assert pace.time_left(Standing(10, None, 5.0, "")) == ""


def test_a_log_gets_a_line_when_something_else_goes_on():
    lines = []
    display = LogDisplay(lines.append)
    for activity in ("queued", "queued", "searching"):
        display.turn_to(activity)

    assert lines == ["queued", "searching"]


def test_the_first_ctrl_c_asks_and_the_second_insists():
    display, original = Display(), signal.signal(signal.SIGINT, signal.default_int_handler)
    with polite_interrupt(display):
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
