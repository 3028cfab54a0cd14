"""The Celery workers, which grow trees and mine rules. Their messages are defined in `maabo_dist.contract`."""
