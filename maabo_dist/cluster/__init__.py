"""The parts that the processes of a cluster share: settings, broker, Redis streams, artifact store, logging, tracing.

The only package of the library that imports Celery and Redis; it needs the extra `service`.
"""
