import pytest

from maabo_dist.cluster.settings import UnreachableError, check_url, redact_url


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0"),
        ("redis://me:secret@host:6379/0", "redis://host:6379/0"),
        ("rediss://:secret@[::1]:6379/1?password=secret", "rediss://[::1]:6379/1"),
        ("unix://me:secret@/run/redis.sock?db=1", "unix:///run/redis.sock"),
    ],
)
def test_an_address_is_shown_without_its_secrets(url, expected):
    check_url(url)

    assert redact_url(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "redis://:sec#ret@host:1/0",
        "redis://:sec?ret@host:1/0",
        "redis://:sec/ret@host:1/0",
        "redis://me:12?ret@host:1",
        "redis://host:1/0?password=sec@ret",
        "redis://[host:secret/0",
        "redis://host:secret/0",
        "me:secret@host",
        "http://me:secret@host/",
        "localhost:6379",
        "",
    ],
)
def test_an_invalid_address_is_rejected_without_its_secrets(url):
    with pytest.raises(UnreachableError, match="Example: redis://") as raised:
        check_url(url)

    assert "ret" not in str(raised.value)
