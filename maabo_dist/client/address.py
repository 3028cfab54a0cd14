"""The address of a server, and the rule for which addresses a token may be sent to. No message contains a token."""

from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import SplitResult, urlsplit

from maabo_dist._util.hosts import is_loopback
from maabo_dist._version import __version__
from maabo_dist.errors import SettingsError

EXAMPLE = "http://127.0.0.1:8080"


@dataclass(frozen=True, slots=True)
class Address:
    """A server's URL without a slash at its end, and the token for it."""

    url: str
    token: str | None = field(default=None, repr=False)
    # True if the server is on this machine.
    loopback: bool = False

    @classmethod
    def parse(cls, url: str, token: str | None, *, insecure: bool) -> Self:
        """Check an address; `insecure` permits sending a token over plain http to another machine."""
        parts = _split(url)
        loopback = is_loopback(parts.hostname or "")
        if token is not None:
            _check_token(token)
            if parts.scheme == "http" and not loopback and not insecure:
                raise SettingsError(
                    f"The token would be sent to {parts.netloc} over plain http, where others can read it. Use the "
                    "server's https:// address or, on a network that you trust, insecure=True (--insecure)."
                )
        return cls(url.rstrip("/"), token, loopback)

    def httpx_options(self) -> dict[str, Any]:
        """Arguments of an httpx client. A redirect could leak the token; a loopback server needs no proxy."""
        headers = {"User-Agent": f"maabo-dist/{__version__}"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        return {
            "base_url": self.url,
            "headers": headers,
            "follow_redirects": False,
            "trust_env": not self.loopback,
        }


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        problem = _problem(url, parts)
    except ValueError:
        problem = "is not a valid URL"
    if problem:
        text = repr(url) if "@" not in url else "(hidden, it contains an @)"
        raise SettingsError(f"The server address {text} {problem}. A valid address looks like {EXAMPLE}.")
    return parts


def _problem(url: str, parts: SplitResult) -> str | None:
    if parts.scheme not in {"http", "https"}:
        return "does not begin with http:// or https://"
    if not parts.hostname or parts.port == 0:  # reading the port raises ValueError if it is out of range
        return "has no host, or a port that cannot be used"
    if "@" in parts.netloc:
        return "contains a user name; pass the token separately"
    if parts.query or parts.fragment:
        return "contains a ? or #"
    if not url.isascii() or any(character <= " " or character == "\x7f" for character in url):
        return "contains spaces or non-ASCII characters"
    return None


def _check_token(token: str) -> None:
    """Refuse line breaks, which could forge headers, and the content of a wrong file."""
    if not token or not token.isascii() or any(character <= " " or character == "\x7f" for character in token):
        raise SettingsError("The token is empty or contains characters that no token has. Copy all of it.")
