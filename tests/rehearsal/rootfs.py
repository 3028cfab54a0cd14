"""Executes the steps of a Dockerfile in directories: each stage is a root file system with this machine's programs.

Mounts are made in the mount namespace of this process (see `__main__`), so they disappear with it.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.rehearsal.context import sent_files
from tests.rehearsal.dockerfile import Stage, Step

_ETC = (
    *("passwd", "group", "login.defs", "nsswitch.conf", "resolv.conf", "hosts", "localtime"),
    *("ssl", "ca-certificates", "pip.conf", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "mime.types"),
)
_PLACES = ["dev", "etc", "opt", "proc", "root", "run", "sys/fs/cgroup", "tmp", "usr", "var/lib", "var/cache", "data"]
_NODES = ("null", "zero", "full", "random", "urandom")
_BASE_PATH = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
_OWN = re.compile(r"PIP_(?!CONSTRAINT)|SSL_CERT_|(https?|no)_proxy$", re.IGNORECASE)


def mount(*arguments: str | Path) -> None:
    """Run mount."""
    subprocess.run(["mount", *map(str, arguments)], check=True)


class RootFs:
    """The file system of a stage, and the state that its steps leave behind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {"PATH": _BASE_PATH}
        self.directory, self.user = "/", "0:0"
        self._create_base()

    def path(self, inside: str) -> Path:
        """Return the outside path of a path inside, relative to the working directory."""
        return self.folder / os.path.normpath(f"{self.directory}/{inside}" if inside[:1] != "/" else inside)[1:]

    def run(self, command: str) -> None:
        """Execute a RUN step, with the settings that this machine's pip needs."""
        own = {name: value for name, value in os.environ.items() if _OWN.match(name)}
        subprocess.run(
            ["chroot", self.folder, "/bin/sh", "-ec", f"cd {shlex.quote(self.directory)}; {command}"],
            env={**own, **self.environment, "HOME": "/root"},
            stdin=subprocess.DEVNULL,
            check=True,
        )

    def _create_base(self) -> None:
        """Create a substitute for the base image: this machine's /usr, its Python as /usr/local, and a small /etc."""
        for place in _PLACES:
            (self.folder / place).mkdir(parents=True, exist_ok=True)
        (self.folder / "tmp").chmod(0o1777)
        for name in ("bin", "lib", "lib64", "sbin"):
            if not (self.folder / name).is_symlink():
                (self.folder / name).symlink_to(f"usr/{name}")
        if not (self.folder / "etc/passwd").exists():
            self._create_etc()
        self._mount_base()

    def _create_etc(self) -> None:
        for name in _ETC:
            subprocess.run(["cp", "-aL", f"/etc/{name}", self.folder / "etc"], check=False, stderr=subprocess.DEVNULL)
        with (self.folder / "etc/hosts").open("a") as hosts:
            hosts.write("\n127.0.0.1 redis postgres api\n")

    def _mount_base(self) -> None:
        mount("-t", "proc", "proc", self.folder / "proc")
        _bind("/usr", self.folder / "usr")
        _bind(sys.base_prefix, self.folder / "usr/local")
        python_home = self.folder / sys.base_prefix[1:]  # Python expects its library where it was installed
        python_home.mkdir(parents=True, exist_ok=True)
        _bind(sys.base_prefix, python_home)
        for name in _NODES:
            (self.folder / "dev" / name).touch()
            mount("--bind", f"/dev/{name}", self.folder / "dev" / name)
        pip = Path.home() / ".config/pip"
        if pip.is_dir():
            (self.folder / "root/.config/pip").mkdir(parents=True, exist_ok=True)
            _bind(pip, self.folder / "root/.config/pip")


def build(stages: list[Stage], context: Path, work: Path, report: Callable[[str], object]) -> tuple[RootFs, Stage]:
    """Execute all steps that were not executed before; return the last stage and its file system."""
    sent, mark = sent_files(context), work / "built"
    done = mark.exists()
    built: dict[str, RootFs] = {}
    for number, stage in enumerate(stages):
        _check_base(stage)
        root = RootFs(work / f"stage{number}")
        for step in stage.steps:
            if done and step.word in {"RUN", "COPY"}:
                continue
            report(f"  {step.line:3} {step.word} {step.text[:100]}")
            _execute(step, root, context, sent, built)
        built[stage.name or str(number)] = root
    mark.touch()
    return root, stage


def expand(text: str, environment: Mapping[str, str]) -> str:
    """Substitute `$NAME` in a value."""
    return re.sub(r"\$\{?(\w+)\}?", lambda match: environment.get(match[1], ""), text)


def _execute(step: Step, root: RootFs, context: Path, sent: list[str], built: Mapping[str, RootFs]) -> None:
    match step.word:
        case "RUN":
            root.run(step.text)
        case "ENV":
            root.environment |= {name: expand(value, root.environment) for name, value in step.pairs.items()}
        case "WORKDIR":
            root.directory = step.text
            root.path(".").mkdir(parents=True, exist_ok=True)
        case "USER":
            root.user = step.text
        case "COPY":
            _copy(step, root, context, sent, built)


def _copy(step: Step, root: RootFs, context: Path, sent: list[str], built: Mapping[str, RootFs]) -> None:
    *sources, place = [word for word in step.text.split() if not word.startswith("--")]
    stage = re.search(r"--from=(\S+)", step.text)
    target = root.path(place)
    for source in sources:
        if stage:
            shutil.copytree(built[stage[1]].path(source), target, symlinks=True, dirs_exist_ok=True)
            continue
        names = [name for name in sent if name == source or name.startswith(f"{source}/")]
        if not names:
            raise FileNotFoundError(f"Line {step.line}: {source} is not sent to the builder.")
        for name in names:
            inside = name.removeprefix(source).lstrip("/")
            whole = target / inside if inside else target / Path(name).name if place.endswith("/") else target
            whole.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(context / name, whole)


def _check_base(stage: Stage) -> None:
    version = re.fullmatch(r"python:(\d+\.\d+)\.\d+-slim-\w+", stage.base)
    if version is None or version[1] != "{}.{}".format(*sys.version_info):
        raise ValueError(f"{stage.base} cannot be replaced by Python {sys.version.split()[0]}.")


def _bind(source: str | Path, target: Path) -> None:
    mount("--bind", source, target)
    mount("-o", "remount,bind,ro", target)
