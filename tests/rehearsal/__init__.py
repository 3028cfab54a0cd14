"""Runs the image and the compose file without a container engine: `python -m tests.rehearsal`.

    Dockerfile ─► stages ─► steps, executed in directories ─► a root file system
    compose file ─► command, environment, volumes, user of each service ─► namespaces on that file system

It reads the same files as an engine, so that it cannot differ from them. It needs Linux and root. This machine's system
and Python replace the base image.
"""
