"""The browser interface: `/` and `/page/…`, a fixed list of static files without a build step.

It is an ordinary client of `/v1`. Its content security policy permits only files and responses of this server.
"""

import re
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from typing import Annotated

from fastapi import APIRouter, Header, Request, Response

from maabo_dist.report.html import briefing_script, briefing_style, content_policy
from scheduler.api.problems import NotFoundError

router = APIRouter(include_in_schema=False)

ASSETS = files(__package__).joinpath("assets")
INDEX = "index.html"
MODULES = (
    *("api", "cluster-load", "column-picker", "dom", "event-stream", "form-fields", "format", "job-actions"),
    "job-findings",
    *("job-page", "jobs-page", "main", "new-job-page", "plan-panel", "rule-list", "score-history", "session"),
    *("settings", "sign-in", "table-picker", "theme"),
)
# The part of the report that the page of a job shows.
BRIEFING = {"briefing.js": briefing_script, "briefing.css": briefing_style}
NAMES = (*BRIEFING, INDEX, "page.css", "icon.svg", "theme-init.js", *(f"{module}.js" for module in MODULES))
_TYPES = {"html": "text/html", "css": "text/css", "svg": "image/svg+xml", "js": "text/javascript"}


def hashes_of(policy: str, directive: str) -> str:
    """Return the hashes of a directive in a content security policy."""
    match = re.search(rf"(?:^|;)\s*{directive}([^;]*)", policy)
    return "".join(f" {each}" for each in re.findall(r"'sha256-[A-Za-z0-9+/=]+'", match[1] if match else ""))


# A report is opened as a blob, to which the policy of the page that opens it applies in addition to its own.
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
    """One static file."""

    content: bytes
    media_type: str
    tag: str

    @classmethod
    def read(cls, name: str) -> "File":
        """Read an asset."""
        content = BRIEFING[name]().encode() if name in BRIEFING else ASSETS.joinpath(name).read_bytes()
        return cls(content, _TYPES[name.rpartition(".")[2]], f'"{sha256(content).hexdigest()[:32]}"')

    def respond(self, if_none_match: str | None) -> Response:
        """Return the file, or 304 if the browser has it."""
        headers = HEADERS | {"ETag": self.tag}
        if self.tag in (if_none_match or ""):
            return Response(status_code=304, headers=headers)
        return Response(self.content, media_type=self.media_type, headers=headers)


FILES = {name: File.read(name) for name in NAMES}

IfNoneMatch = Annotated[str | None, Header(alias="If-None-Match", max_length=1000)]


@router.api_route("/", methods=["GET", "HEAD"])
async def get_index(if_none_match: IfNoneMatch = None) -> Response:
    """Return the page."""
    return FILES[INDEX].respond(if_none_match)


@router.api_route("/page/{name}", methods=["GET", "HEAD"])
async def get_asset(request: Request, name: str, if_none_match: IfNoneMatch = None) -> Response:
    """Return a static file."""
    asset = FILES.get(name)
    if asset is None:
        raise NotFoundError(f"There is no file {request.url.path[:200]}.", remedy="Open /.")
    return asset.respond(if_none_match)
