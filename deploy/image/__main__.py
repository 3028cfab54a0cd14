"""`python -m deploy.image ROLE`: the entry point of the image, its health check, and steps of its build and start.

It imports only light modules, because this process stays alive if it is process 1 of its container.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from deploy.image.roles import ROLES, check_health, role_command, role_file
from deploy.image.secret_files import prepare_secrets, write_metrics_token
from deploy.image.startup import clear_temporary_files, compile_kernels, install_kernels, run_as_init
from maabo_dist.errors import MaaboError

USAGE = f"""Usage: python -m deploy.image {{{"|".join(ROLES)}}} [OPTION]…   run a role until SIGTERM
       python -m deploy.image maabo …            run the command line: maabo mine, submit, …
       python -m deploy.image health [ROLE]      exit with 0 if the role of this container is healthy
       python -m deploy.image secrets            create missing passwords, or fail if they must be given
       python -m deploy.image metrics-token      create the token that Prometheus uses
       python -m deploy.image bake DIRECTORY     compile the kernels when the image is built
"""


def main(arguments: list[str]) -> int:
    """Return the exit code: 0 success, 1 failed, 2 invalid arguments; otherwise that of the role."""
    try:
        return _run(arguments, os.environ)
    except MaaboError as error:
        sys.stderr.write(f"maabo: {error}\n")
        return 2


def _run(arguments: list[str], environment: Mapping[str, str]) -> int:
    match arguments:
        case ["health", *role] if len(role) < 2:
            return check_health(role[0] if role else None, environment)
        case ["secrets"]:
            return prepare_secrets(environment, sys.stderr.write)
        case ["metrics-token"]:
            return write_metrics_token()
        case ["bake", folder]:
            return compile_kernels(Path(folder))
        case [role, *options] if role in (*ROLES, "maabo"):
            return _run_role(role, options, environment)
        case _:
            sys.stderr.write(USAGE)
            return 0 if arguments in (["--help"], ["help"]) else 2


def _run_role(role: str, options: list[str], environment: Mapping[str, str]) -> int:
    """Run a role; exec it where this is not process 1, as with `docker run --init`."""
    command = role_command(role, options, environment)
    clear_temporary_files(environment)
    role_environment = {**environment, **install_kernels(environment, sys.stderr.write)}
    if role in ROLES:
        role_file(environment).write_text(role)
    if os.getpid() == 1:
        return run_as_init(command, role_environment)
    return os.execvpe(command[0], command, role_environment)  # noqa: S606 - our own commands  # nosec B606


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
