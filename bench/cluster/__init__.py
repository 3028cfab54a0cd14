"""Benchmarks of a cluster on this machine: Redis, schedulers and workers as processes."""
