"""Artifacts for tests of stores."""

import redis

from maabo_dist.cluster.redis_store import RedisStore
from tests.servers import free_port

NAME, OTHER = "columns/" + "a" * 64, "trees/" + "b" * 64
KEY = f"test:maabo:artifact:{NAME}"
THREE_CHUNKS = bytes(range(256)) * 10_000  # 2.4 MiB


def a_file(tmp_path, content=b"content"):
    path = tmp_path / "source"
    path.write_bytes(content)
    return path


def unreachable():
    """A store whose Redis is unreachable."""
    return RedisStore(redis.Redis(port=free_port(), retry=None), "test:")
