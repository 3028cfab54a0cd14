"""`python -m deploy.image ROLE`: the entry of the image. `health [ROLE]` is its probe, `bake DIR` a step of its build.

Nothing is imported here that a role does not need: this process stays, if it is the first one of its container.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from deploy.image.first import run_as_first
from deploy.image.kernels import bake, unpack
from deploy.image.probe import probe, role_file
from deploy.image.roles import ROLES, command_of
from deploy.image.scratch import clear_scratch
from deploy.image.secret_files import prepare_secrets, write_metrics_token
from maabo_dist.errors import MaaboError

USAGE = f"""Usage: python -m deploy.image {{{"|".join(ROLES)}}} [OPTION]…   run a role until SIGTERM
       python -m deploy.image maabo …            the command line: maabo mine, submit, …
       python -m deploy.image health [ROLE]      end with 0 if the role of this container is well
       python -m deploy.image secrets            make the passwords that were not given, or refuse
       python -m deploy.image metrics-token      make the token that Prometheus reads with
       python -m deploy.image bake DIRECTORY     compile the kernels; part of the build
"""


def main(arguments: list[str]) -> int:
    """Exit codes: 0 as asked, 1 failed, 2 something that was given is wrong; else the role's own."""
    try:
        return _run(arguments, os.environ)
    except MaaboError as error:
        sys.stderr.write(f"maabo: {error}\n")
        return 2


def _run(arguments: list[str], environment: Mapping[str, str]) -> int:
    match arguments:
        case ["health", *role] if len(role) < 2:
            return probe(role[0] if role else None, environment)
        case ["secrets"]:
            return prepare_secrets(environment, sys.stderr.write)
        case ["metrics-token"]:
            return write_metrics_token()
        case ["bake", folder]:
            return bake(Path(folder))
        case [role, *options] if role in (*ROLES, "maabo"):
            return _become(role, options, environment)
        case _:
            sys.stderr.write(USAGE)
            return 0 if arguments in (["--help"], ["help"]) else 2


def _become(role: str, options: list[str], environment: Mapping[str, str]) -> int:
    """Does not come back where another process is the first of the container already, as by `docker run --init`."""
    command = command_of(role, options, environment)
    clear_scratch(environment)
    own = {**environment, **unpack(environment, sys.stderr.write)}
    if role in ROLES:
        role_file(environment).write_text(role)
    if os.getpid() == 1:
        return run_as_first(command, own)
    return os.execvpe(command[0], command, own)  # noqa: S606 - commands of our own


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
