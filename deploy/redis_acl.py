"""`python -m deploy.redis_acl`: Redis users with no more rights than each part of a cluster needs, as an ACL file.

A user is a list of grants: some commands on some keys. Redis 7 is told exactly these, each as a selector. Redis 6.2
knows no selectors: a user may there use all of its commands on all of its keys.

    scheduler   everything that a scheduler does, and housekeeping
    worker      takes tasks and answers them; sees no record and no rules
    api         `python -m scheduler serve`
    client      `maabo submit` and its like: asks, and reads records and rules
    service     another service with Celery: sends `maabo.submit`, reads the answer, serves its own queues
    flower      hears of tasks and asks workers; Redis cannot tell a question from an order to stop

Exit codes: 0 written, 2 something that was given is wrong.
"""

import re
import secrets
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import click

from deploy.local.directory import write_private
from maabo_dist.cli.exit_codes import exit_code
from maabo_dist.cluster.redis_store import KEY as ARTIFACT
from maabo_dist.contract import names
from maabo_dist.errors import SettingsError

NAME = re.compile(r"[A-Za-z0-9_.:-]{1,50}")
"""Nothing that means something in a pattern of Redis."""

RECORDS = (f"{names.JOB_RECORD}:*", f"{names.JOB_DOCUMENT}:*")
EVENTS, RESULTS, METERS = f"{names.JOB_EVENTS}:*", f"{names.RESULTS_STREAM}:*", f"{names.METERS}:*"
WORKERS = f"{names.WORKERS}:*"
ARTIFACTS = f"{ARTIFACT}:*"
ANSWERS = "celery-task-meta-*"
QUEUES = f"{names.QUEUE_PREFIX}*"
PRIORITIES = "??[369]"
"""kombu looks into four lists for a queue: one of its name, and three that go on with two control characters."""
MAILBOXES = tuple(f"{name}{end}" for name in ("*.celery.pidbox", "celeryev.*") for end in ("", PRIORITIES))
SESSION = ("ping", "select", "multi", "exec", "discard", "unwatch")
"""On no key. To sign in is everyone's right."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Commands on keys; of none where the commands have none."""

    commands: tuple[str, ...]
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class User:
    """Who may do what, without the prefix of keys and channels."""

    name: str
    grants: tuple[Grant, ...]
    channels: tuple[str, ...] = ()


def grant(commands: str, *keys: str) -> Grant:
    """Commands as words."""
    return Grant(tuple(commands.split()), keys)


def check_names(given: Iterable[str]) -> None:
    """Refuse what would mean more than itself in a pattern."""
    for name in given:
        if not NAME.fullmatch(name):
            raise SettingsError(f"{name!r} is no prefix or queue: letters, digits and _ . : - are, up to 50 of them.")


def users(database: int, own_queues: Sequence[str]) -> tuple[User, ...]:
    """All users of a cluster; `own_queues` are those of services, that callbacks go to."""
    pidbox, events = f"/{database}.celery.pidbox", f"/{database}.celeryev/*"
    artifacts = (grant("get set exists del expire", ARTIFACTS), grant("time"))
    forget = grant("del", *RECORDS, EVENTS)  # in one grant: they go in one command
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
                grant("set", names.CLUSTER),
                grant("set mget", METERS),  # read by `python -m scheduler health`
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
                ask,
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
                *(part for queue in own_queues for part in _consuming((queue,), f"{queue}-")),
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
    """Where kombu keeps which queues hang on an exchange."""
    return tuple(f"_kombu.{table}.{exchange}" for exchange in exchanges for table in ("binding", "binding_permanent"))


def _consuming(queues: tuple[str, ...], owner: str = "") -> tuple[Grant, ...]:
    """What kombu does to take messages, to note in lists of the owner's what is taken, and to give back the dead's."""
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
    """The lines of an ACL file: for Redis 7 with `selectors`, for 6.2 without."""
    found = ["user default off resetchannels -@all"]
    for user in users(database, own_queues):
        secret = sha256(passwords[user.name].encode()).hexdigest() if passwords else "<SHA-256 of the password, in hex>"
        channels = " ".join(["resetchannels", *(f"&{prefix}{channel}" for channel in user.channels)])
        rules = _exact(user, prefix) if selectors else _coarse(user, prefix)
        found.append(f"user {user.name} on #{secret} {channels} -@all {rules}")
    return found


def _exact(user: User, prefix: str) -> str:
    keyless = [command for grant in user.grants if not grant.keys for command in grant.commands]
    selectors = [f"({_rules(grant.commands, grant.keys, prefix)})" for grant in user.grants if grant.keys]
    return " ".join([_rules((*SESSION, *keyless), (), prefix), *selectors])


def _coarse(user: User, prefix: str) -> str:
    commands = [*SESSION, *(command for grant in user.grants for command in grant.commands)]
    return _rules(commands, [key for grant in user.grants for key in grant.keys], prefix)


def _rules(commands: Iterable[str], keys: Iterable[str], prefix: str) -> str:
    rules = [*(f"+{command}" for command in commands), *(f"~{prefix}{key}" for key in keys)]
    return " ".join(dict.fromkeys(rules))


def kept_passwords(path: Path, wanted: Iterable[str]) -> dict[str, str]:
    """The passwords in a file of lines `USER PASSWORD`; one that is missing is made, and written there."""
    text = path.read_text() if path.exists() else ""
    found = dict(line.split(maxsplit=1) for line in text.splitlines() if len(line.split()) == 2)
    missing = [name for name in wanted if name not in found]
    found |= {name: secrets.token_urlsafe(32) for name in missing}
    if missing:
        write_private(path, "".join(f"{name} {password}\n" for name, password in found.items()))
    return found


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--prefix", default="", envvar="MAABO_PREFIX", help="That of all keys.  [default: MAABO_PREFIX]")
@click.option("--database", default=0, type=click.IntRange(0, 65535), help="Number in the Redis' URL.  [default: 0]")
@click.option(
    "--queue", "own_queues", multiple=True, metavar="NAME", help="A service's queue, for callbacks; may be repeated."
)
@click.option("--redis", "version", default="7", type=click.Choice(["7", "6.2"]), help="For which Redis.  [default: 7]")
@click.option(
    "--passwords",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Lines of USER PASSWORD; what is missing is made and written there. The ACL file has hashes only.",
)
def redis_acl(prefix: str, database: int, own_queues: tuple[str, ...], version: str, passwords: Path | None) -> None:
    """Write the users of a cluster to standard output, as Redis reads them from its `aclfile`."""
    check_names((*own_queues, *([prefix] if prefix else ())))
    known = None if passwords is None else kept_passwords(passwords, [user.name for user in users(database, ())])
    for line in lines(prefix, database=database, own_queues=own_queues, selectors=version == "7", passwords=known):
        click.echo(line)


def main() -> None:
    """Run the command, and turn every way in which it is expected to end into a line and an exit code."""
    sys.exit(exit_code(redis_acl, "python -m deploy.redis_acl"))


if __name__ == "__main__":
    main()
