import pytest

from maabo_dist._util.text import parse_duration
from maabo_dist.errors import SettingsError


@pytest.mark.parametrize(
    ("text", "seconds"), [("30d", 2_592_000), ("12h", 43_200), ("90m", 5400), ("2W", 1_209_600), ("never", None)]
)
def test_durations_are_parsed(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "d", "0d", "-1d", "1.5h", "30 d", "1y", "9999999999d"])
def test_other_texts_are_refused_with_examples(text):
    with pytest.raises(SettingsError, match="30d, 12h or 90m"):
        parse_duration(text)
