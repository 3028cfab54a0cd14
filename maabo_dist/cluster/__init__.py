"""What the processes of a cluster share: settings, the Celery configuration, Redis streams and records.

The only part of the library that imports Celery and Redis; it needs the extra `service`.
"""
