"""The page for people: `/` and `/page/…`, a fixed list of files that were written by hand and are sent as they are.

It is an ordinary client of `/v1` that runs in a browser. What it may load is this server's own files and answers, and
nothing from anywhere else.
"""

import re
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from typing import Annotated

from fastapi import APIRouter, Header, Request, Response

from maabo_dist.report.html import content_policy
from scheduler.api.problems import NotFoundError

router = APIRouter(include_in_schema=False)

ASSETS = files(__package__).joinpath("assets")
START = "index.html"
MODULES = (
    *("api", "chart", "columns", "controls", "dom", "events", "fields", "files", "history", "job", "jobs", "main"),
    *("load", "plan", "rules", "session", "settings", "signin", "submit", "text", "theme", "upload"),
)
NAMES = (START, "page.css", "icon.svg", "early.js", *(f"{module}.js" for module in MODULES))
_TYPES = {"html": "text/html", "css": "text/css", "svg": "image/svg+xml", "js": "text/javascript"}


def hashes_of(policy: str, directive: str) -> str:
    """The hashes that a policy names for a directive."""
    found = re.search(rf"(?:^|;)\s*{directive}([^;]*)", policy)
    return "".join(f" {each}" for each in re.findall(r"'sha256-[A-Za-z0-9+/=]+'", found[1] if found else ""))


# A report that came with a token is shown from memory, where the policy of whoever shows it holds as well as its own.
POLICY = "; ".join(
    [
        "default-src 'none'",
        f"script-src 'self'{hashes_of(content_policy(), 'script-src')}",
        f"style-src 'self'{hashes_of(content_policy(), 'style-src')}",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


@dataclass(frozen=True, slots=True)
class File:
    """One file of the page."""

    content: bytes
    media_type: str
    tag: str

    @classmethod
    def read(cls, name: str) -> "File":
        """From beside this module."""
        content = ASSETS.joinpath(name).read_bytes()
        return cls(content, _TYPES[name.rpartition(".")[2]], f'"{sha256(content).hexdigest()[:32]}"')

    def answer(self, known: str | None) -> Response:
        """The file, or that the browser has it."""
        headers = HEADERS | {"ETag": self.tag}
        if self.tag in (known or ""):
            return Response(status_code=304, headers=headers)
        return Response(self.content, media_type=self.media_type, headers=headers)


FILES = {name: File.read(name) for name in NAMES}

Known = Annotated[str | None, Header(alias="If-None-Match", max_length=1000)]


@router.api_route("/", methods=["GET", "HEAD"])
async def start(known: Known = None) -> Response:
    """The page."""
    return FILES[START].answer(known)


@router.api_route("/page/{name}", methods=["GET", "HEAD"])
async def file(request: Request, name: str, known: Known = None) -> Response:
    """One of its files."""
    found = FILES.get(name)
    if found is None:
        raise NotFoundError(f"There is nothing at {request.url.path[:200]}.", remedy="The page is at /.")
    return found.answer(known)
