"""The version, read by the build and by every result document."""

__version__ = "0.1.0"
