"""Generate the blocking client, `maabo_dist/client/_sync`, from the asynchronous one. Run it with `make client`."""

import re
import subprocess
import sys
from pathlib import Path

import unasync

ROOT = Path(__file__).parents[1]
CLIENT = ROOT / "maabo_dist" / "client"
HEADER = "# Generated from {source} by `make client`. Do not edit.\n"
NAMES = {
    "AsyncBaseTransport": "BaseTransport",
    "AsyncClient": "Client",
    "AsyncEventStream": "EventStream",
    "AsyncRemoteJob": "RemoteJob",
    "AsyncTransport": "Transport",
    "_async": "_sync",
    "aclose": "close",
    "aclosing": "closing",
    "aiter_bytes": "iter_bytes",
    "aiter_sse": "iter_sse",
    "anyio": "time",
    "aread": "read",
    "async_call": "call",
    "async_read_chunks": "read_chunks",
}
_KEYWORDS = re.compile(r"\b(async|await) ")
_TEXT_NAMES = re.compile(r"\bAsync(BaseTransport|RemoteJob)\b|(?<=with )AsyncClient\b|(?<=`)AsyncClient(?=`: )")


def generate(client: Path = CLIENT) -> list[Path]:
    """Write `_sync` next to `_async` in the directory of the client, and return its files."""
    sources = sorted((client / "_async").glob("[a-z]*.py"))
    rule = unasync.Rule("/_async/", "/_sync/", additional_replacements=NAMES)
    unasync.unasync_files([str(source) for source in sources], [rule])
    targets = [client / "_sync" / source.name for source in sources]
    for source, target in zip(sources, targets, strict=True):
        header = HEADER.format(source=f"maabo_dist/client/_async/{source.name}")
        target.write_text(header + _rewrite_strings(target.read_text(encoding="utf-8")), encoding="utf-8")
    for command in (["check", "--select=I", "--fix"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--quiet", "--config", ROOT / "pyproject.toml"]
        subprocess.run([*ruff, *targets], check=True, cwd=ROOT)
    return targets


def _rewrite_strings(text: str) -> str:
    """Rewrite docstrings and annotations in quotes, which unasync leaves alone."""
    text = _KEYWORDS.sub("", text)
    return _TEXT_NAMES.sub(lambda match: match[0].removeprefix("Async"), text)


if __name__ == "__main__":
    generate()
