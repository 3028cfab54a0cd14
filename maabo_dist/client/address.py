"""Where a server is, and whether a token may be sent there. A token is never part of a message."""

from dataclasses import dataclass, field
from typing import Self
from urllib.parse import SplitResult, urlsplit

from maabo_dist._util.hosts import is_loopback
from maabo_dist.errors import SettingsError

EXAMPLE = "http://127.0.0.1:8080"


@dataclass(frozen=True, slots=True)
class Address:
    """A server's URL without a slash at its end, and the token for it."""

    url: str
    token: str | None = field(default=None, repr=False)
    loopback: bool = False
    """Whether it is on this machine."""

    @classmethod
    def checked(cls, url: str, token: str | None, *, insecure: bool) -> Self:
        """What was given, if it can be used; `insecure` permits a token over plain http to another machine."""
        parts = _parts(url)
        loopback = is_loopback(parts.hostname or "")
        if token is not None:
            _check_token(token)
            if parts.scheme == "http" and not loopback and not insecure:
                raise SettingsError(
                    f"A token would travel to {parts.netloc} in plain http, where others can read it. Give the "
                    "server's https:// address; or, on a network that you trust, insecure=True (--insecure)."
                )
        return cls(url.rstrip("/"), token, loopback)

    @property
    def headers(self) -> dict[str, str]:
        """With the token, if there is one."""
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        problem = _problem(url, parts)
        shown = repr(url) if "@" not in url else "(not shown, it holds an @)"
    except ValueError:
        problem, shown = "does not read", repr(url) if "@" not in url else "…"
    if problem:
        raise SettingsError(f"The address of the server, {shown}, {problem}. One such as {EXAMPLE} is right.")
    return parts


def _problem(url: str, parts: SplitResult) -> str | None:
    if parts.scheme not in {"http", "https"}:
        return "begins with neither http:// nor https://"
    if not parts.hostname or parts.port == 0:  # reading the port also refuses what is none
        return "names no host or port that can be reached"
    if "@" in parts.netloc:
        return "holds a user; tokens are given by themselves"
    if parts.query or parts.fragment:
        return "has a ? or # in it"
    if not url.isascii() or any(character <= " " or character == "\x7f" for character in url):
        return "has spaces or characters beyond ASCII"
    return None


def _check_token(token: str) -> None:
    """A header could be forged with a line break; most of all, a file was read that holds something else."""
    if not token or not token.isascii() or any(character <= " " or character == "\x7f" for character in token):
        raise SettingsError("The token is empty or holds spaces or other characters that no token has. Copy it whole.")
