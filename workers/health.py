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
        options = {**application.conf.broker_transport_options, "max_retries": 0}
        with application.connection_for_write(connect_timeout=TIMEOUT_SECONDS, transport_options=options) as connection:
            control = application.control.inspect([node], timeout=TIMEOUT_SECONDS, connection=connection)
            healthy = bool(control.ping())
        line = f"{node} is healthy." if healthy else f"{node} does not answer."
    except (MaaboError, *BROKER_ERRORS) as error:
        line, healthy = f"{node} cannot be asked: {error}", False
    sys.stderr.write(f"{line}\n")
    return int(not healthy)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
