"""Which cluster a command is for: the options that name it, before the command or after it, and the environment."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from pathlib import Path
from typing import Any, Self

import click

from maabo_dist.cli.options import all_of, section_option
from maabo_dist.errors import SettingsError

SERVER = "http://127.0.0.1:8080"
"""Where `python -m scheduler serve` listens by default."""

_redis_option = section_option(
    "--redis",
    "redis_url",
    section="Cluster",
    metavar="URL",
    help="The cluster's Redis.  [default: MAABO_REDIS, or redis://127.0.0.1:6379/0]",
)
_server_options = all_of(
    section_option(
        "--server",
        "server_url",
        section="Cluster",
        metavar="URL",
        help="The cluster's HTTP server, instead of its Redis.  [default: MAABO_SERVER]",
    ),
    section_option(
        "--token-file",
        section="Cluster",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="File that holds the token for --server.  [default: what MAABO_TOKEN holds]",
    ),
    section_option(
        "--token",
        section="Cluster",
        metavar="TEXT",
        help="The token itself. Others on this machine can read it in the list of processes; --token-file and "
        "MAABO_TOKEN keep it to yourself.",
    ),
    section_option(
        "--insecure", section="Cluster", is_flag=True, help="Send the token over plain http to another machine."
    ),
)


@dataclass(frozen=True, slots=True)
class Place:
    """What was given on the command line to name a cluster."""

    redis_url: str | None = None
    server_url: str | None = None
    token_file: Path | None = None
    token: str | None = field(default=None, repr=False)
    insecure: bool = False

    def over(self, outer: "Place | None") -> Self:
        """With what was given before the command, where nothing was given after it."""
        if outer is None:
            return self
        inherited = {name: getattr(outer, name) for name in _NAMES if not getattr(self, name)}
        if self.has_token:
            inherited = {name: value for name, value in inherited.items() if not name.startswith("token")}
        return replace(self, **inherited)

    def checked(self) -> Self:
        """The same, if it makes sense."""
        if self.redis_url is not None and self.server_url is not None:
            raise SettingsError("Both --redis and --server are given. Give the one that the cluster is reached by.")
        if self.token is not None and self.token_file is not None:
            raise SettingsError("Both --token and --token-file are given. Give one of them.")
        if self.server(SERVER) is None and self.has_token:
            raise SettingsError("A token is for --server; a Redis has its password in its URL. Leave one of them out.")
        return self

    @property
    def has_token(self) -> bool:
        """Whether one was given here, and not by the environment."""
        return self.token is not None or self.token_file is not None

    def server(self, default: str | None = None) -> str | None:
        """The server that is meant; None if a Redis is."""
        if self.redis_url is not None:
            return None
        return self.server_url or os.environ.get("MAABO_SERVER") or default

    def read_token(self) -> str | None:
        """The token, from wherever it is."""
        if self.token is not None:
            return self.token
        if self.token_file is None:
            return os.environ.get("MAABO_TOKEN", "").strip() or None
        try:
            return self.token_file.read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            raise SettingsError(f"--token-file {self.token_file} cannot be read: {error}.") from error


_NAMES = tuple(each.name for each in fields(Place))


def _collected(command: Callable[..., Any], names: tuple[str, ...]) -> Callable[..., Any]:
    @wraps(command)
    def call(*args: Any, **given: Any) -> Any:
        own = Place(**{name: given.pop(name) for name in names})
        outer = click.get_current_context().find_object(Place)
        return command(*args, place=own.over(outer).checked(), **given)

    return call


def place_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options for a cluster, by its Redis or by its server; the command gets them as `place`."""
    return all_of(_redis_option, _server_options)(_collected(command, _NAMES))


def server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same for what only servers do."""
    return _server_options(_collected(command, tuple(name for name in _NAMES if name != "redis_url")))
