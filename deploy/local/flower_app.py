"""The Celery application that Flower looks through: it knows the broker and no task, and so compiles no kernel."""

import os

from maabo_dist.cluster.celery_app import make_celery
from maabo_dist.cluster.settings import ClusterSettings

app = make_celery(ClusterSettings.from_environment(os.environ))
