"""The Celery application that Flower looks through: it knows the broker and no task, and so compiles no kernel."""

import os

from maabo_dist.cluster.broker import make_celery, uses_amqp
from maabo_dist.cluster.settings import ClusterSettings

settings = ClusterSettings.from_environment(os.environ)
app = make_celery(settings)
if not uses_amqp(settings):
    # Lists of its own for the answers that it has taken: it needs no right to what workers have taken.
    app.conf.broker_transport_options |= {
        "unacked_key": "flower-unacked",
        "unacked_index_key": "flower-unacked_index",
        "unacked_mutex_key": "flower-unacked_mutex",
    }
