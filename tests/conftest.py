"""One hypothesis profile for the whole suite: the same examples on every run, and no test asserts a time."""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
