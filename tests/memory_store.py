"""An artifact store in memory."""

import time

from maabo_dist._util.files import atomic_write
from maabo_dist.cluster.store import Artifact, MissingArtifactError, check_name


class MemoryStore:
    def __init__(self):
        self._content = {}

    def has(self, name):
        return check_name(name) in self._content

    def put(self, name, source):
        self.put_bytes(name, source.read_bytes())

    def put_bytes(self, name, data):
        stored, _ = self._content.get(check_name(name)) or (data, 0.0)
        self._content[name] = (stored, time.time())

    def get(self, name, target):
        if not self.has(name):
            raise MissingArtifactError(f"{name} is not in the artifact store.")
        with atomic_write(target) as file:
            file.write(self._content[name][0])

    def delete(self, name):
        self._content.pop(check_name(name), None)

    def list(self):
        for name, (data, modified) in sorted(self._content.items()):
            yield Artifact(name, len(data), modified)
