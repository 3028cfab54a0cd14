"""The services of the compose file as containers, on volumes in a directory."""

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from deploy.local.plan import redis_binary
from tests.rehearsal import compose
from tests.rehearsal.container import Blueprint, Container
from tests.rehearsal.dockerfile import Stage
from tests.rehearsal.rootfs import RootFs

OWNER = 10001
DATABASE = 999
"""The user of the images of Redis and PostgreSQL."""
_POSTGRES = """set -e
bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)
$bin/initdb -U "$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" $POSTGRES_INITDB_ARGS --no-sync >/dev/null
echo "CREATE DATABASE maabo" | $bin/postgres --single -j postgres >/dev/null
exec $bin/postgres -c listen_addresses=127.0.0.1 -c fsync=off -c unix_socket_directories=/run/postgresql"""


class Cluster:
    """Starts services by their names. `given` is the operator's .env."""

    def __init__(self, top: Path, work: Path, image: tuple[RootFs, Stage], base: RootFs) -> None:
        self._top, self._work, self._base = top, work, base
        self._image, self._stage = image
        self.running: dict[str, Container] = {}
        for name in ("passwd", "group"):  # the base images have this user
            with (base.folder / "etc" / name).open("a") as file:
                file.write(
                    f"database:x:{DATABASE}:\n" if name == "group" else f"database:x:{DATABASE}:{DATABASE}::/:/bin/sh\n"
                )

    @property
    def probe(self) -> list[str]:
        """The image's health check."""
        step = self._stage.last("HEALTHCHECK")
        return (step.exec_form if step else None) or []

    def start(
        self, service: str, given: Mapping[str, str] | None = None, command: list[str] | None = None
    ) -> Container:
        """As the compose file says, or with another command."""
        given = given or {}
        document = compose.load(self._top / "docker-compose.yml", given)
        wanted = compose.service(document, service, given)
        of_image = document["services"][service]["image"].startswith("maabo-dist")
        make = self._role if of_image else self._server
        number = sum(name.startswith(service) for name in self.running) + 1
        blueprint = make(wanted, self._mounts(document, wanted), f"{service}{number}", command)
        started = Container(blueprint, self._work / f"{blueprint.name}.log")
        self.running[blueprint.name] = started
        return started

    def volume(self, name: str) -> Path:
        """Where a volume is: made with the owner of the directory that it is mounted on, as engines do."""
        folder = self._work / "volumes" / name
        if not folder.exists():
            folder.mkdir(parents=True)
            owner = DATABASE if name in {"redis", "postgres"} else OWNER
            shutil.chown(folder, owner, owner)
            folder.chmod(0o750)
        return folder

    def healthy(self, name: str) -> bool:
        """Whether the image's own check ends with 0."""
        return self.running[name].call(*self.probe).returncode == 0

    def close(self) -> None:
        """End all."""
        for container in self.running.values():
            container.kill()

    def _mounts(self, document: Mapping[str, Any], wanted: compose.Service) -> dict[str, tuple[Path, bool]]:
        found = {
            place: (self._top / source if source.startswith("./") else self.volume(source), read_only)
            for place, (source, read_only) in wanted.mounts.items()
        }
        files = {name: Path(document["secrets"][name]["file"]) for name in wanted.secrets}
        return found | {f"/run/secrets/{name}": (path, True) for name, path in files.items()}

    def _role(
        self, wanted: compose.Service, mounts: dict[str, tuple[Path, bool]], name: str, command: list[str] | None
    ) -> Blueprint:
        entry = self._stage.last("ENTRYPOINT")
        words = [*((entry.exec_form if entry else None) or []), *(command or wanted.command)]
        return Blueprint(
            name,
            self._image.folder,
            words,
            self._image.environment | wanted.environment,
            self._image.directory,
            wanted.user or self._image.user,
            wanted.groups,
            wanted.capabilities,
            mounts,
        )

    def _server(
        self, wanted: compose.Service, mounts: dict[str, tuple[Path, bool]], name: str, _: list[str] | None
    ) -> Blueprint:
        """Redis and PostgreSQL are this machine's, with the command, the files and the user of the service."""
        command = wanted.command or ["sh", "-c", _POSTGRES]
        if wanted.name == "redis":
            mounts = mounts | {"/opt/redis-server": (Path(redis_binary()), True)}
            command = ["/opt/redis-server", *wanted.command[1:]]
        environment = {"PATH": self._base.environment["PATH"]} | wanted.environment
        scratch = ("/tmp", "/dev/shm", "/run/postgresql")
        return Blueprint(
            name,
            self._base.folder,
            command,
            environment,
            user=wanted.user or "0:0",
            groups=wanted.groups,
            mounts=mounts,
            scratch=scratch,
        )


def wait_for(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Until it is so; else an error that names it."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not happen within {seconds:.0f} s.")
        time.sleep(0.2)
