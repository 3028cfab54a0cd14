"""The services of the compose file as containers, with volumes in a directory."""

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from deploy.local.plan import redis_binary
from tests.rehearsal import compose
from tests.rehearsal.container import Container, ContainerSpec
from tests.rehearsal.dockerfile import Stage
from tests.rehearsal.rootfs import RootFs

OWNER = 10001
DATABASE = 999
"""The user of the images of Redis and PostgreSQL."""
_POSTGRES = """set -e
bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)
$bin/initdb -U "$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" $POSTGRES_INITDB_ARGS --no-sync >/dev/null
echo "CREATE DATABASE maabo" | $bin/postgres --single -j postgres >/dev/null
exec $bin/postgres -c listen_addresses=127.0.0.1 -c fsync=off -c unix_socket_directories=/run/postgresql "$@"
"""


class Cluster:
    """Starts services by name."""

    def __init__(self, root: Path, work: Path, image: tuple[RootFs, Stage], base: RootFs) -> None:
        self._root, self._work, self._base = root, work, base
        self._image, self._stage = image
        self.running: dict[str, Container] = {}
        for name in ("passwd", "group"):  # the images of Redis and PostgreSQL have this user
            with (base.folder / "etc" / name).open("a") as file:
                file.write(
                    f"database:x:{DATABASE}:\n" if name == "group" else f"database:x:{DATABASE}:{DATABASE}::/:/bin/sh\n"
                )

    @property
    def health_check(self) -> list[str]:
        """The image's health check."""
        step = self._stage.last("HEALTHCHECK")
        return (step.exec_form if step else None) or []

    def start(
        self, service: str, variables: Mapping[str, str] | None = None, command: list[str] | None = None
    ) -> Container:
        """Start a service of the compose file; `variables` are those of the .env file."""
        variables = variables or {}
        document = compose.load(self._root / "docker-compose.yml", variables)
        definition = compose.service(document, service, variables)
        own_image = document["services"][service]["image"].startswith("maabo-dist")
        make = self._role if own_image else self._server
        number = sum(name.startswith(service) for name in self.running) + 1
        spec = make(definition, self._mounts(document, definition), f"{service}{number}", command)
        container = Container(spec, self._work / f"{spec.name}.log")
        self.running[spec.name] = container
        return container

    def volume(self, name: str) -> Path:
        """Return the directory of a volume; a new one gets the owner of the directory that it is mounted on."""
        folder = self._work / "volumes" / name
        if not folder.exists():
            folder.mkdir(parents=True)
            owner = DATABASE if name in {"redis", "postgres"} else OWNER
            shutil.chown(folder, owner, owner)
            folder.chmod(0o750)
        return folder

    def healthy(self, name: str) -> bool:
        """True if the health check of the image exits with 0."""
        return self.running[name].call(*self.health_check).returncode == 0

    def close(self) -> None:
        """Kill all containers."""
        for container in self.running.values():
            container.kill()

    def _mounts(self, document: Mapping[str, Any], definition: compose.Service) -> dict[str, tuple[Path, bool]]:
        mounts = {
            path: (self._root / source if source.startswith("./") else self.volume(source), read_only)
            for path, (source, read_only) in definition.mounts.items()
        }
        files = {name: Path(document["secrets"][name]["file"]) for name in definition.secrets}
        return mounts | {f"/run/secrets/{name}": (path, True) for name, path in files.items()}

    def _role(
        self, definition: compose.Service, mounts: dict[str, tuple[Path, bool]], name: str, command: list[str] | None
    ) -> ContainerSpec:
        entry = self._stage.last("ENTRYPOINT")
        words = [*((entry.exec_form if entry else None) or []), *(command or definition.command)]
        return ContainerSpec(
            name,
            self._image.folder,
            words,
            self._image.environment | definition.environment,
            self._image.directory,
            definition.user or self._image.user,
            definition.groups,
            definition.capabilities,
            mounts,
        )

    def _server(
        self, definition: compose.Service, mounts: dict[str, tuple[Path, bool]], name: str, _: list[str] | None
    ) -> ContainerSpec:
        """Use this machine's Redis and PostgreSQL, with the command, the files and the user of the service."""
        command = ["sh", "-c", _POSTGRES, *definition.command]  # whose first word is the name of the program
        if definition.name == "redis":
            mounts = mounts | {"/opt/redis-server": (Path(redis_binary()), True)}
            command = ["/opt/redis-server", *definition.command[1:]]
        environment = {"PATH": self._base.environment["PATH"]} | definition.environment
        tmpfs = ("/tmp", "/dev/shm", "/run/postgresql")
        return ContainerSpec(
            name,
            self._base.folder,
            command,
            environment,
            user=definition.user or "0:0",
            groups=definition.groups,
            mounts=mounts,
            tmpfs=tmpfs,
        )


def wait_for(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Wait until the condition holds, or raise an error that names it."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not happen within {seconds:.0f} s.")
        time.sleep(0.2)
