import pytest

from maabo_dist._util.network import backoff_delay, jittered


def test_delays_double_up_to_the_maximum():
    assert [backoff_delay(0.5, failures, maximum=3.0) for failures in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_without_a_maximum_delays_keep_doubling():
    assert backoff_delay(1.0, 10) == 1024.0


@pytest.mark.parametrize("failures", [1_000, 1_000_000])
def test_any_number_of_failures_has_a_finite_delay(failures):
    assert backoff_delay(1.0, failures, maximum=60.0) == 60.0
    assert backoff_delay(1.0, failures) < float("inf")


def test_jitter_spreads_delays_between_half_and_all():
    delays = [jittered(8.0) for _ in range(200)]

    assert all(4.0 <= delay <= 8.0 for delay in delays)
    assert max(delays) - min(delays) > 1.0
