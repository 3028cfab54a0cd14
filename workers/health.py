"""`python -m workers.health [NODE]`: 0 if this host's worker answers, 1 if not. For container and service managers."""

import os
import socket
import sys

from maabo_dist.cluster.broker import BROKER_ERRORS, make_celery
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.errors import MaaboError

PATIENCE = 5.0


def main(arguments: list[str]) -> int:
    """Ask the node over the broker, as anyone would who sends it work."""
    node = arguments[0] if arguments else f"celery@{socket.gethostname()}"
    try:
        application = make_celery(ClusterSettings.from_environment(os.environ))
        # A broker that is not there is an answer, too: at once, not after many attempts.
        with application.connection_for_write(connect_timeout=PATIENCE, transport_options=_once(application)) as link:
            found = application.control.inspect(destination=[node], timeout=PATIENCE, connection=link).ping()
    except (MaaboError, *BROKER_ERRORS) as error:
        return _said(f"{node} cannot be asked: {error}", 1)
    return _said(f"{node} is well.", 0) if found else _said(f"{node} does not answer.", 1)


def _once(application: object) -> dict[str, object]:
    return {**application.conf.broker_transport_options, "max_retries": 0}  # type: ignore[attr-defined]


def _said(line: str, code: int) -> int:
    sys.stderr.write(f"{line}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
