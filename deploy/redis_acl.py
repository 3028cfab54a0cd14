"""`python -m deploy.redis_acl`: an ACL file of Redis users, each with only the permissions that its component needs.

A user is a list of grants: commands on keys. For Redis 7 each grant is a selector. Redis 6.2 has no selectors: there, a
user may use all of its commands on all of its keys.

    scheduler   everything that a scheduler does, including maintenance
    worker      takes tasks and answers them; cannot read job records or rules
    api         `python -m scheduler serve`
    client      `maabo submit` and other commands: sends requests, reads records and rules
    service     another service with Celery: sends `maabo.submit`, reads the answer, consumes its own queues
    flower      receives task events and queries workers; Redis cannot distinguish a query from a command to stop

Exit codes: 0 written, 2 invalid options.
"""

import re
import secrets
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import click

from deploy.shared import write_private
from maabo_dist.console import run_command
from maabo_dist.contract import names
from maabo_dist.errors import SettingsError

NAME = re.compile(r"[A-Za-z0-9_.:-]{1,50}")  # without characters that have a meaning in a Redis pattern

RECORDS = (f"{names.JOB_RECORD}:*", f"{names.JOB_DOCUMENT}:*")
EVENTS, RESULTS, METERS = f"{names.JOB_EVENTS}:*", f"{names.RESULTS_STREAM}:*", f"{names.METERS}:*"
WORKERS = f"{names.WORKERS}:*"
ENDED = f"{names.JOB_ENDED}:*"
ARTIFACTS = f"{names.ARTIFACT}:*"
ANSWERS = "celery-task-meta-*"
QUEUES = f"{names.QUEUE_PREFIX}*"
# kombu uses four lists per queue: one with its name, and three with two control characters and a priority added.
PRIORITIES = "??[369]"
MAILBOXES = tuple(f"{name}{end}" for name in ("*.celery.pidbox", "celeryev.*") for end in ("", PRIORITIES))
# Commands without keys. Every user may authenticate.
SESSION = ("ping", "select", "multi", "exec", "discard", "unwatch")


Grant = tuple[list[str], tuple[str, ...]]  # commands and their keys; no keys for commands that have none


def grant(commands: str, *keys: str) -> Grant:
    """Return a grant; the commands are separated by spaces."""
    return commands.split(), keys


@dataclass(frozen=True, slots=True)
class User:
    """A user and its permissions, without the prefix of keys and channels."""

    name: str
    grants: tuple[Grant, ...]
    channels: tuple[str, ...] = ()


def check_names(candidates: Iterable[str]) -> None:
    """Refuse names that would be patterns."""
    for name in candidates:
        if not NAME.fullmatch(name):
            raise SettingsError(f"{name!r} is not valid: use up to 50 letters, digits and the characters _ . : -")


def users(database: int, own_queues: Sequence[str]) -> tuple[User, ...]:
    """Return all users of a cluster; `own_queues` are the queues of services, to which callbacks are sent."""
    pidbox, events = f"/{database}.celery.pidbox", f"/{database}.celeryev/*"
    artifacts = (grant("get set exists del expire", ARTIFACTS), grant("time"))
    forget = grant("del", *RECORDS, EVENTS)  # one grant, because one command deletes all of them
    ask = grant("xadd", names.INTAKE_STREAM)
    inspect = (
        grant(
            "sadd smembers srem exists del evalsha zadd zrem zrangebyscore",
            *_bindings(["celery*", "reply.celery.pidbox"]),
            "_kombu.binding_deadlines",
        ),
        grant("time script|load script|exists"),
        grant("brpop rpop llen del exists", *MAILBOXES),
    )
    return (
        User(
            "scheduler",
            (
                grant("xread xdel", names.INTAKE_STREAM, RESULTS),
                grant("del", RESULTS),
                grant("xadd", names.REFUSED_STREAM),
                grant("xadd expire", EVENTS),
                grant("set mget exists", *RECORDS),
                forget,
                grant("set", names.CLUSTER, ENDED),
                grant("set mget", METERS),  # read by `python -m scheduler health`
                grant("mget", WORKERS),
                grant("zadd zrange zrem", names.JOB_LIST),
                grant("lpush llen exists", QUEUES, *_lists(own_queues)),
                grant("sadd smembers", *_bindings([QUEUES, *own_queues])),
                grant("scan"),
                *artifacts,
            ),
        ),
        User(
            "worker",
            (
                *_consuming((QUEUES,)),
                grant("xadd expire", RESULTS),
                grant("set del", WORKERS),
                grant("exists", ENDED),
                ask,
                grant("xadd", names.REFUSED_STREAM),
                grant("set setex get", ANSWERS),
                *artifacts,
                *inspect,
                grant("lpush", *MAILBOXES),
                grant("publish subscribe psubscribe unsubscribe punsubscribe"),
            ),
            (pidbox, events, f"/{database}.celeryev/worker.*", ANSWERS),
        ),
        User(
            "api",
            (
                grant("get mget exists", *RECORDS, names.CLUSTER, METERS, WORKERS),
                grant("xread xrange xrevrange", EVENTS),
                forget,
                grant("get set", names.EVENTS_EPOCH),
                grant("zrem", names.JOB_LIST),
                ask,
                grant("xlen", names.INTAKE_STREAM, names.REFUSED_STREAM, RESULTS),
                grant("llen hlen", QUEUES, "unacked"),
                grant("scan"),
                *artifacts,
            ),
        ),
        User(
            "client",
            (
                ask,
                grant("get mget", *RECORDS, names.CLUSTER),
                grant("zrevrange zscan", names.JOB_LIST),
                *artifacts,
            ),
        ),
        User(
            "service",
            (
                grant("lpush llen exists", *_lists([names.JOBS_QUEUE])),
                grant("sadd smembers", *_bindings([names.JOBS_QUEUE])),
                grant("get del", ANSWERS),
                grant("subscribe unsubscribe"),
                *(entry for queue in own_queues for entry in _consuming((queue,), f"{queue}-")),
            ),
            (ANSWERS,),
        ),
        User(
            "flower",
            (
                *inspect,
                *_consuming((), "flower-"),
                grant("llen", QUEUES),
                grant("publish subscribe psubscribe unsubscribe punsubscribe"),
            ),
            (pidbox, events),
        ),
    )


def _lists(queues: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for queue in queues for name in (queue, f"{queue}{PRIORITIES}"))


def _bindings(exchanges: Iterable[str]) -> tuple[str, ...]:
    """Return the keys in which kombu stores the queues of an exchange."""
    return tuple(f"_kombu.{table}.{exchange}" for exchange in exchanges for table in ("binding", "binding_permanent"))


def _consuming(queues: tuple[str, ...], owner: str = "") -> tuple[Grant, ...]:
    """Allow kombu to consume messages, record them in lists of the owner, and restore those of dead consumers."""
    taking = (
        grant("brpop rpop lpush rpush llen exists", *_lists(queues)),
        grant("sadd smembers srem", *_bindings(queues)),
    )
    return (
        *(taking if queues else ()),
        grant("hset hget hdel hlen zadd zrem zrange watch", f"{owner}unacked", f"{owner}unacked_index"),
        grant("set get del pexpire evalsha", f"{owner}unacked_mutex"),
        grant("script|load script|exists"),
    )


def lines(
    prefix: str = "",
    *,
    database: int = 0,
    own_queues: Sequence[str] = (),
    selectors: bool = True,
    passwords: Mapping[str, str] | None = None,
) -> list[str]:
    """Return the lines of an ACL file: with `selectors` for Redis 7, without for 6.2."""
    result = ["user default off resetchannels -@all"]
    for user in users(database, own_queues):
        secret = sha256(passwords[user.name].encode()).hexdigest() if passwords else "<SHA-256 of the password, in hex>"
        channels = " ".join(["resetchannels", *(f"&{prefix}{channel}" for channel in user.channels)])
        selected = [each for each in user.grants if selectors and each[1]]
        others = [each for each in user.grants if each not in selected]
        commands = [*SESSION, *(command for words, _ in others for command in words)]
        common = _rules(commands, [key for _, keys in others for key in keys], prefix)
        rules = " ".join([common, *(f"({_rules(*each, prefix)})" for each in selected)])
        result.append(f"user {user.name} on #{secret} {channels} -@all {rules}")
    return result


def _rules(commands: Iterable[str], keys: Iterable[str], prefix: str) -> str:
    rules = [*(f"+{command}" for command in commands), *(f"~{prefix}{key}" for key in keys)]
    return " ".join(dict.fromkeys(rules))


def read_passwords(path: Path, user_names: Iterable[str]) -> dict[str, str]:
    """Read a file with lines `USER PASSWORD`; generate missing passwords and add them to the file."""
    text = path.read_text() if path.exists() else ""
    passwords = dict(line.split(maxsplit=1) for line in text.splitlines() if len(line.split()) == 2)
    missing = [name for name in user_names if name not in passwords]
    passwords |= {name: secrets.token_urlsafe(32) for name in missing}
    if missing:
        write_private(path, "".join(f"{name} {password}\n" for name, password in passwords.items()))
    return passwords


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--prefix", default="", envvar="MAABO_PREFIX", help="Prefix of all keys.  [default: MAABO_PREFIX]")
@click.option(
    "--database",
    default=0,
    type=click.IntRange(0, 65535),
    help="Number of the database, as in the URL of Redis.  [default: 0]",
)
@click.option(
    "--queue", "own_queues", multiple=True, metavar="NAME", help="Queue of a service, for callbacks; may be repeated."
)
@click.option(
    "--redis", "version", default="7", type=click.Choice(["7", "6.2"]), help="Version of Redis.  [default: 7]"
)
@click.option(
    "--passwords",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="File with lines USER PASSWORD; missing ones are generated and added. The ACL file has only hashes.",
)
def redis_acl(prefix: str, database: int, own_queues: tuple[str, ...], version: str, passwords: Path | None) -> None:
    """Print the users of a cluster in the format of Redis' `aclfile`."""
    check_names((*own_queues, *([prefix] if prefix else ())))
    texts = None if passwords is None else read_passwords(passwords, [user.name for user in users(database, ())])
    for line in lines(prefix, database=database, own_queues=own_queues, selectors=version == "7", passwords=texts):
        click.echo(line)


if __name__ == "__main__":
    sys.exit(run_command(redis_acl, "python -m deploy.redis_acl"))
