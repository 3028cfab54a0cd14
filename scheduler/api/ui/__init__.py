"""The browser interface: `/` and `/page/…`, static files that are put together when the server starts.

    index.html ── contains ──► theme-init.js
        │ refers to
        ├──► main-<hash>.js      all modules, as one script (`bundle`)
        ├──► page-<hash>.css
        └──► icon-<hash>.svg

Browsers keep a file whose name contains the hash of its content for good, and ask for `/` each time. The interface is
an ordinary client of `/v1`. Its content security policy permits only files and responses of this server.
"""

import gzip
import json
import re
from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from typing import Annotated

from fastapi import APIRouter, Header, Request, Response

from maabo_dist.report.html import briefing_script, briefing_style, content_policy
from maabo_dist.settings import MiningSettings, TableSettings
from scheduler.api.problems import NotFoundError
from scheduler.api.ui.bundle import bundle

router = APIRouter(include_in_schema=False)

ASSETS = files(__package__).joinpath("assets")
_TYPES = {"html": "text/html", "css": "text/css", "svg": "image/svg+xml", "js": "text/javascript"}


def read_asset(name: str) -> str:
    """Return the text of a file in `assets`."""
    return ASSETS.joinpath(name).read_text(encoding="utf-8")


def read_module(name: str) -> str:
    """Return a module of the script.

    `briefing` is the part of the report that the page of a job shows; `schemas` has the fields of the settings.
    """
    if name == "briefing":
        return briefing_script()
    if name != "schemas":
        return read_asset(f"{name}.js")
    models = (MiningSettings, TableSettings)
    schemas = {model.__name__: model.model_json_schema()["properties"] for model in models}
    return f"export const SCHEMAS = {json.dumps(schemas)};\n"


THEME_SCRIPT = read_asset("theme-init.js")


def hashes_of(policy: str, directive: str) -> str:
    """Return the hashes of a directive in a content security policy."""
    match = re.search(rf"(?:^|;)\s*{directive}([^;]*)", policy)
    return "".join(f" {each}" for each in re.findall(r"'sha256-[A-Za-z0-9+/=]+'", match[1] if match else ""))


def hash_of(script: str) -> str:
    """Return the hash by which a content security policy permits a script inside a page."""
    return f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"


# A report is opened as a blob, to which the policy of the page that opens it applies in addition to its own.
POLICY = "; ".join(
    [
        "default-src 'none'",
        f"script-src 'self' {hash_of(THEME_SCRIPT)}{hashes_of(content_policy(), 'script-src')}",
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
    "Vary": "Accept-Encoding",
}
REVALIDATE, KEEP = "no-cache", "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class File:
    """One static file, plain and compressed."""

    content: bytes
    compressed: bytes
    media_type: str
    digest: str
    caching: str

    @classmethod
    def of(cls, text: str, extension: str, caching: str) -> "File":
        """Compress a text, the same way each time."""
        content = text.encode()
        compressed = gzip.compress(content, mtime=0)
        return cls(content, compressed, _TYPES[extension], sha256(content).hexdigest()[:32], caching)

    def respond(self, if_none_match: str | None, accept_encoding: str | None) -> Response:
        """Return the file, or 304 if the browser has it."""
        headers = HEADERS | {"ETag": f'"{self.digest}"', "Cache-Control": self.caching}
        if self.digest in (if_none_match or ""):
            return Response(status_code=304, headers=headers)
        if "gzip" in (accept_encoding or ""):
            return Response(self.compressed, media_type=self.media_type, headers=headers | {"Content-Encoding": "gzip"})
        return Response(self.content, media_type=self.media_type, headers=headers)


def _read_file(stem: str, extension: str) -> str:
    if extension == "js":
        return bundle(stem, read_module)
    return read_asset(f"{stem}.{extension}") + (briefing_style() if extension == "css" else "")


def build_files() -> tuple[File, dict[str, File]]:
    """Return the page, and the files that it refers to by the names that contain their hashes."""
    index, assets = read_asset("index.html"), dict[str, File]()
    index = index.replace('<script src="page/theme-init.js"></script>', f"<script>{THEME_SCRIPT}</script>")
    for name in ("main.js", "page.css", "icon.svg"):
        stem, _, extension = name.partition(".")
        text = _read_file(stem, extension)
        file = File.of(text, extension, KEEP)
        assets[f"{stem}-{file.digest[:12]}.{extension}"] = file
        index = index.replace(f'"page/{name}"', f'"page/{stem}-{file.digest[:12]}.{extension}"')
    return File.of(index, "html", REVALIDATE), assets


INDEX, FILES = build_files()

IfNoneMatch = Annotated[str | None, Header(alias="If-None-Match", max_length=1000)]
AcceptEncoding = Annotated[str | None, Header(alias="Accept-Encoding", max_length=1000)]


@router.api_route("/", methods=["GET", "HEAD"])
async def get_index(if_none_match: IfNoneMatch = None, accept_encoding: AcceptEncoding = None) -> Response:
    """Return the page."""
    return INDEX.respond(if_none_match, accept_encoding)


@router.api_route("/page/{name}", methods=["GET", "HEAD"])
async def get_asset(
    request: Request, name: str, if_none_match: IfNoneMatch = None, accept_encoding: AcceptEncoding = None
) -> Response:
    """Return a static file."""
    asset = FILES.get(name)
    if asset is None:
        raise NotFoundError(f"There is no file {request.url.path[:200]}.", remedy="Open /.")
    return asset.respond(if_none_match, accept_encoding)
