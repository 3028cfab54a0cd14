"""The image and the compose file, rehearsed without a container engine: `python -m tests.rehearsal`.

    Dockerfile ─► stages ─► its steps in directories of their own ─► a root file system
    compose file ─► command, environment, volumes, user of each service ─► namespaces around that file system

The files that an engine would read are read, so that the rehearsal cannot drift away from them. Root is needed, and
Linux. What stands for the base image is this machine's system and Python.
"""
