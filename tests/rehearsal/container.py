"""A process in its own namespaces on a read-only root file system, as a container engine would start it."""

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """The definition of a container."""

    name: str
    root: Path
    command: Sequence[str]
    environment: Mapping[str, str]
    directory: str = "/"
    user: str = "0:0"
    groups: Sequence[str] = ()
    capabilities: Sequence[str] = ()
    mounts: Mapping[str, tuple[Path, bool]] = field(default_factory=dict)
    """By path: the source, and True if it is read-only."""
    tmpfs: Sequence[str] = ("/tmp", "/dev/shm")


class Container:
    """A running container and its log."""

    def __init__(self, spec: ContainerSpec, log: Path) -> None:
        self._spec, self._log = spec, log
        namespaces = ["unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child"]
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                [*namespaces, "/bin/sh", "-ec", _script(spec)],
                env=dict(spec.environment),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    @property
    def name(self) -> str:
        """The name of the container."""
        return self._spec.name

    @property
    def init_pid(self) -> int:
        """The process ID of its init process, as seen from outside."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        if not children:
            raise SystemExit(f"{self.name} has ended:\n{self.log()[-2000:]}")
        return int(children[0])

    def processes(self) -> list[int]:
        """Return the IDs of all its processes, as seen from outside."""
        namespace = Path(f"/proc/{self.init_pid}/ns/pid").readlink()
        pids = []
        for path in Path("/proc").iterdir():
            with suppress(OSError):
                if path.name.isdecimal() and (path / "ns/pid").readlink() == namespace:
                    pids.append(int(path.name))
        return pids

    def call(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command inside, as `docker exec` does."""
        enter = ["nsenter", f"--target={self.init_pid}", "--mount", "--pid", "--uts", "--ipc", "--root"]
        inside = ["sh", "-c", f"cd {self._spec.directory}; exec {_as_user(self._spec, command)}"]
        return subprocess.run(
            [*enter, *inside], env=dict(self._spec.environment), capture_output=True, text=True, check=False
        )

    def log(self) -> str:
        """Return its log."""
        return self._log.read_text(errors="replace")

    def signal(self, number: int) -> None:
        """Send a signal to its init process, as `docker stop` does."""
        os.kill(self.init_pid, number)

    def wait(self, seconds: float) -> int:
        """Wait for its end and return the exit code."""
        return self.process.wait(seconds)

    def kill(self) -> None:
        """Kill all its processes."""
        self.process.kill()
        self.process.wait()


def _script(spec: ContainerSpec) -> str:
    """Return the shell script that sets up mounts, drops privileges and changes the root before the command."""
    root = spec.root
    # Bind the root to itself first, because only a mount can be made read-only.
    lines = [f"hostname {spec.name}", f"mount --rbind {root} {root}", f"mount -t proc proc {root}/proc"]
    for path, (source, read_only) in spec.mounts.items():
        # Containers of one image share their root: creating a file again would remove the mount of another one.
        file = f"mkdir -p {root}{Path(path).parent}; [ -e {root}{path} ] || : > {root}{path}"
        lines += [f"mkdir -p {root}{path}" if source.is_dir() else file, f"mount --bind {source} {root}{path}"]
        lines += [f"mount -o remount,bind,ro {root}{path}"] if read_only else []
    lines += [f"mkdir -p {root}{path}; mount -t tmpfs -o mode=1777 tmpfs {root}{path}" for path in spec.tmpfs]
    lines.append(f"mount -o remount,bind,ro {root}")
    inside = f"cd {spec.directory}; exec {_as_user(spec, spec.command)}"
    return "\n".join([*lines, f"exec chroot {root} sh -c {shlex.quote(inside)}"])


def _as_user(spec: ContainerSpec, command: Sequence[str]) -> str:
    user, _, group = spec.user.partition(":")
    added = "".join(f",+{name.lower()}" for name in spec.capabilities)
    groups = f"--groups={','.join([group, *spec.groups])}"
    command_prefix = [
        "setpriv",
        f"--reuid={user}",
        f"--regid={group}",
        groups,
        "--no-new-privs",
        f"--bounding-set=-all{added}",
    ]
    return shlex.join([*command_prefix, "--inh-caps=-all", *command])
