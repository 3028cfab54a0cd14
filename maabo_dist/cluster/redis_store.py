"""Artifact stores in Redis (`RedisStore`), of two stores (`FallbackStore`), and from the settings (`open_store`).

    <prefix>maabo:artifact:<name>        head: size, number of chunks, time and SHA-256, as JSON
    <prefix>maabo:artifact:<name>:<n>    chunk n, up to 1 MiB

The head is written last, so that a reader sees all or nothing. All keys expire, including those of a client
that was killed while writing.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from math import ceil
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import redis
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from maabo_dist._util.files import atomic_write
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.store import (
    ARTIFACT_NAME,
    Artifact,
    ArtifactStore,
    FileStore,
    MissingArtifactError,
    StoreError,
    check_name,
)
from maabo_dist.cluster.streams import open_redis
from maabo_dist.errors import SettingsError

KEY = "maabo:artifact"

# Redis blocks while it transfers a value, so values are small.
CHUNK_BYTES = 1 << 20

# Artifacts share the memory of Redis with the queues.
LIMIT_BYTES = 50 << 20

# Seconds after the last `put`.
LIFETIME = 7 * 86400.0


class RedisStore:
    """Artifacts in Redis, in chunks, for small tables on clusters without a shared directory or bucket."""

    def __init__(self, client: redis.Redis, prefix: str, limit: int = LIMIT_BYTES, lifetime: float = LIFETIME) -> None:
        self._client: Any = client  # redis-py types results for sync and async clients alike
        self._prefix, self._limit, self._lifetime = prefix, limit, ceil(lifetime)

    def has(self, name: str) -> bool:
        """Return True if the head and all of its chunks exist; a full Redis may have evicted some."""
        key = self._key(name)
        with _translate_errors():
            head = self._head(key)
            return head is not None and self._client.exists(key, *_chunk_keys(key, head)) == 1 + head.chunks

    def put(self, name: str, source: Path) -> None:
        """Store a local file. If the artifact exists already, only renew its expiry."""
        key = self._key(name)
        with _translate_errors():
            head = self._head(key)
            if head is not None:
                renewed = head.model_copy(update={"modified": self._now()})
                if self._write_head(key, renewed, existing=True):
                    return
            size = source.stat().st_size
            if size > self._limit:
                raise SettingsError(
                    f"{name} has {size:,} bytes; Redis takes up to {self._limit:,}. "
                    "Set MAABO_STORE to a directory that all machines share or to an s3:// bucket."
                )
            self._write(key, source)

    def get(self, name: str, target: Path) -> None:
        """Copy an artifact to a local file and verify its size and SHA-256."""
        key = self._key(name)
        with _translate_errors():
            head = self._head(key)
            if head is None:
                raise MissingArtifactError(f"{name} is not in Redis.")
            with atomic_write(target) as file:
                self._copy(name, head, file)

    def delete(self, name: str) -> None:
        """Remove an artifact."""
        key = self._key(name)
        with _translate_errors():
            head = self._head(key)
            # One command, so that no reader finds the head without its chunks.
            self._client.delete(key, *(_chunk_keys(key, head) if head else ()))

    def list(self) -> Iterator[Artifact]:
        """Yield all artifacts that have a head."""
        start = f"{self._prefix}{KEY}:"
        with _translate_errors():
            keys = self._client.scan_iter(match=f"{start}*", count=1000)
            names = {key.decode(errors="replace")[len(start) :] for key in keys}
            # Keys of chunks do not match the pattern.
            heads = {name: self._head(self._key(name)) for name in sorted(names) if ARTIFACT_NAME.fullmatch(name)}
        for name, head in heads.items():
            if head is not None:
                yield Artifact(name, head.size, head.modified)

    def _key(self, name: str) -> str:
        return f"{self._prefix}{KEY}:{check_name(name)}"

    def _head(self, key: str) -> "_Head | None":
        text = self._client.get(key)
        try:
            return _Head.model_validate_json(text) if text else None
        except ValidationError:  # treated as missing: the next `put` writes it again
            return None

    def _write(self, key: str, source: Path) -> None:
        written: list[str] = []
        digest, size = sha256(), 0
        try:
            with source.open("rb") as file:
                while chunk := file.read(CHUNK_BYTES):
                    written.append(f"{key}:{len(written)}")
                    self._client.set(written[-1], chunk, ex=self._lifetime)
                    digest.update(chunk)
                    size += len(chunk)
            head = _Head(size=size, chunks=len(written), modified=self._now(), sha256=digest.hexdigest())
            if not self._write_head(key, head, existing=False):
                raise StoreError(f"Redis evicted part of {source.name} during the upload; it may be out of memory.")
        except redis.ResponseError:  # rejected, most likely out of memory
            with suppress(redis.RedisError):
                if self._head(key) is None:  # else they belong to another client that finished first
                    self._client.delete(*written)
            raise

    def _write_head(self, key: str, head: "_Head", *, existing: bool) -> bool:
        """Write the head and set the expiry of all keys; False if one of them is missing."""
        with self._client.pipeline(transaction=True) as pipe:
            for chunk_key in _chunk_keys(key, head):
                pipe.expire(chunk_key, self._lifetime)
            pipe.set(key, head.model_dump_json(), ex=self._lifetime, xx=existing)
            return all(pipe.execute())

    def _copy(self, name: str, head: "_Head", file: BinaryIO) -> None:
        digest, size = sha256(), 0
        for number, chunk_key in enumerate(_chunk_keys(self._key(name), head), 1):
            chunk = self._client.get(chunk_key)
            if chunk is None:  # another `get` would fail too, until the next `put`
                raise MissingArtifactError(
                    f"Redis no longer holds all of {name}: chunk {number} of {head.chunks} expired or was evicted."
                )
            digest.update(chunk)
            size += len(chunk)
            file.write(chunk)
        if size != head.size:
            raise StoreError(f"{name} in Redis is damaged: it has {size:,} bytes, {head.size:,} were written.")
        if digest.hexdigest() != head.sha256:
            raise StoreError(f"{name} in Redis is damaged: its content does not match its SHA-256 {head.sha256[:12]}….")

    def _now(self) -> float:
        """Return the time of the server, because clients' clocks differ."""
        seconds, microseconds = self._client.time()
        return float(seconds + microseconds / 1e6)


class FallbackStore:
    """A primary store with a fallback.

    Workers and schedulers look in the cluster's store, then in Redis, where clients without access to the store put
    tables.
    """

    def __init__(self, first: ArtifactStore, second: ArtifactStore) -> None:
        self._first, self._second = first, second

    def has(self, name: str) -> bool:
        """Return True if one of the stores holds this artifact."""
        try:
            if self._first.has(name):
                return True
        except StoreError:
            if self._second.has(name):
                return True
            raise
        return self._second.has(name)

    def put(self, name: str, source: Path) -> None:
        """Store a local file in the first store."""
        self._first.put(name, source)

    def get(self, name: str, target: Path) -> None:
        """Copy an artifact to a local file."""
        try:
            self._first.get(name, target)
        except StoreError as error:
            try:
                self._second.get(name, target)
            except MissingArtifactError:
                raise error from None

    def delete(self, name: str) -> None:
        """Remove an artifact from both stores, even if one of them fails."""
        try:
            self._first.delete(name)
        finally:
            self._second.delete(name)

    def list(self) -> Iterator[Artifact]:
        """Yield all artifacts; if both stores have one, yield the newer copy."""
        newest: dict[str, Artifact] = {}
        for item in (*self._first.list(), *self._second.list()):
            if item.name not in newest or item.modified > newest[item.name].modified:
                newest[item.name] = item
        yield from newest.values()


def open_store(settings: ClusterSettings, client: redis.Redis) -> ArtifactStore:
    """Return the cluster's store; `client` is connected to the cluster's Redis.

    `redis://` means that Redis itself. Any other store (a directory, a bucket, `redis://host:port/db` for another
    server) falls back to it for artifacts that it lacks.
    """
    own = _redis_store(settings, client)
    url = settings.store_url
    if url in ("redis", "redis:", "redis://", settings.redis_url):
        return own
    if not url.startswith(("redis:", "rediss:")):
        return FallbackStore(FileStore(url), own)
    try:
        if urlsplit(url).hostname:
            other = open_redis(settings.model_copy(update={"redis_url": url}))
            return FallbackStore(_redis_store(settings, other), own)
    except ValueError:
        pass
    # The value may contain a password: neither it nor the message of redis-py is repeated.
    raise SettingsError(
        "MAABO_STORE is not a Redis URL, such as redis://user:password@host:port/db; "
        "redis:// alone means the Redis of the cluster."
    )


class _Head(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    size: int = Field(ge=0)
    chunks: int = Field(ge=0, le=1 << 16)
    modified: float
    sha256: str


def _redis_store(settings: ClusterSettings, client: redis.Redis) -> RedisStore:
    # A table must not expire before the record of its job.
    return RedisStore(client, settings.prefix, lifetime=max(LIFETIME, settings.retention))


def _chunk_keys(key: str, head: _Head) -> Iterator[str]:
    return (f"{key}:{number}" for number in range(head.chunks))


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except redis.RedisError as error:
        raise StoreError(f"The artifact store in Redis failed: {error}.") from error
    except OSError as error:  # from the local file
        raise StoreError(f"An artifact could not be copied: {error}.") from error
