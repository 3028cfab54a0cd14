"""The Celery application that Flower uses. It imports no tasks, so that Flower loads no kernels."""

import os

from maabo_dist.cluster.broker import make_celery, uses_amqp
from maabo_dist.cluster.settings import ClusterSettings

settings = ClusterSettings.from_environment(os.environ)
app = make_celery(settings)
if not uses_amqp(settings):
    # Separate lists for messages that Flower has taken, so that it needs no access to those of the workers.
    app.conf.broker_transport_options |= {
        "unacked_key": "flower-unacked",
        "unacked_index_key": "flower-unacked_index",
        "unacked_mutex_key": "flower-unacked_mutex",
    }
