"""A process in namespaces of its own, on a root file system that it cannot write: what an engine would start."""

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Blueprint:
    """All that is to be known of one."""

    name: str
    root: Path
    command: Sequence[str]
    environment: Mapping[str, str]
    directory: str = "/"
    user: str = "0:0"
    groups: Sequence[str] = ()
    capabilities: Sequence[str] = ()
    mounts: Mapping[str, tuple[Path, bool]] = field(default_factory=dict)
    """By place: what is there, and whether it is read-only."""
    scratch: Sequence[str] = ("/tmp", "/dev/shm")


class Container:
    """One that runs, with its log."""

    def __init__(self, blueprint: Blueprint, log: Path) -> None:
        self._blueprint, self._log = blueprint, log
        own = ["unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child"]
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                [*own, "/bin/sh", "-ec", _script(blueprint)],
                env=dict(blueprint.environment),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    @property
    def name(self) -> str:
        """Of the service."""
        return self._blueprint.name

    @property
    def first(self) -> int:
        """The number, outside, of the first process inside."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        if not children:
            raise SystemExit(f"{self.name} has ended:\n{self.log()[-2000:]}")
        return int(children[0])

    def processes(self) -> list[int]:
        """Outside numbers of all processes inside."""
        own = Path(f"/proc/{self.first}/ns/pid").readlink()
        found = []
        for path in Path("/proc").iterdir():
            with suppress(OSError):
                if path.name.isdecimal() and (path / "ns/pid").readlink() == own:
                    found.append(int(path.name))
        return found

    def call(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command inside, as `docker exec` does."""
        own = ["nsenter", f"--target={self.first}", "--mount", "--pid", "--uts", "--ipc", "--root"]
        inside = ["sh", "-c", f"cd {self._blueprint.directory}; exec {_as_user(self._blueprint, command)}"]
        return subprocess.run(
            [*own, *inside], env=dict(self._blueprint.environment), capture_output=True, text=True, check=False
        )

    def log(self) -> str:
        """What it has said."""
        return self._log.read_text(errors="replace")

    def signal(self, number: int) -> None:
        """To the first process inside, as `docker stop` does."""
        os.kill(self.first, number)

    def wait(self, seconds: float) -> int:
        """Its exit code."""
        return self.process.wait(seconds)

    def kill(self) -> None:
        """At once, with all that is in it."""
        self.process.kill()
        self.process.wait()


def _script(blueprint: Blueprint) -> str:
    """What lies between a new namespace and the command: mounts, no rights, another root."""
    root = blueprint.root
    # Bound to itself first, with what is mounted in it: only a mount can be made read-only.
    lines = [f"hostname {blueprint.name}", f"mount --rbind {root} {root}", f"mount -t proc proc {root}/proc"]
    for place, (source, read_only) in blueprint.mounts.items():
        # Containers of one image share their root: to make a file anew would take away what another one mounted on it.
        file = f"mkdir -p {root}{Path(place).parent}; [ -e {root}{place} ] || : > {root}{place}"
        lines += [f"mkdir -p {root}{place}" if source.is_dir() else file, f"mount --bind {source} {root}{place}"]
        lines += [f"mount -o remount,bind,ro {root}{place}"] if read_only else []
    lines += [f"mkdir -p {root}{place}; mount -t tmpfs -o mode=1777 tmpfs {root}{place}" for place in blueprint.scratch]
    lines.append(f"mount -o remount,bind,ro {root}")
    inside = f"cd {blueprint.directory}; exec {_as_user(blueprint, blueprint.command)}"
    return "\n".join([*lines, f"exec chroot {root} sh -c {shlex.quote(inside)}"])


def _as_user(blueprint: Blueprint, command: Sequence[str]) -> str:
    user, _, group = blueprint.user.partition(":")
    kept = "".join(f",+{name.lower()}" for name in blueprint.capabilities)
    groups = f"--groups={','.join([group, *blueprint.groups])}"
    own = ["setpriv", f"--reuid={user}", f"--regid={group}", groups, "--no-new-privs", f"--bounding-set=-all{kept}"]
    return shlex.join([*own, "--inh-caps=-all", *command])
