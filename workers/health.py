"""`python -m workers.health [NODE]`: 0 if this host's worker answers, 1 if not. For container and service managers."""

import os
import socket
import sys

from maabo_dist.cluster.broker import BROKER_ERRORS, make_celery
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.errors import MaaboError

TIMEOUT_SECONDS = 5.0


def main(arguments: list[str]) -> int:
    """Ask the node through the broker, the way its tasks come."""
    node = arguments[0] if arguments else f"celery@{socket.gethostname()}"
    try:
        application = make_celery(ClusterSettings.from_environment(os.environ))
        # That the broker cannot be reached is an answer, too; do not retry.
        with application.connection_for_write(
            connect_timeout=TIMEOUT_SECONDS, transport_options=_without_retries(application)
        ) as connection:
            replies = application.control.inspect(
                destination=[node], timeout=TIMEOUT_SECONDS, connection=connection
            ).ping()
    except (MaaboError, *BROKER_ERRORS) as error:
        return _report(f"{node} cannot be asked: {error}", 1)
    return _report(f"{node} is well.", 0) if replies else _report(f"{node} does not answer.", 1)


def _without_retries(application: object) -> dict[str, object]:
    return {**application.conf.broker_transport_options, "max_retries": 0}  # type: ignore[attr-defined]


def _report(line: str, code: int) -> int:
    sys.stderr.write(f"{line}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
