"""Artifact stores in Redis (`RedisStore`), of two stores (`FallbackStore`), and from the settings (`open_store`).

    <prefix>maabo:artifact:<name>        manifest: size, number of chunks, time and SHA-256, as JSON
    <prefix>maabo:artifact:<name>:<n>    chunk n, up to 1 MiB

The manifest is written last, so that a reader sees all or nothing. All keys expire, including those of a client
that was killed while writing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from io import BytesIO
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
from maabo_dist.contract.names import ARTIFACT as KEY
from maabo_dist.errors import SettingsError

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
        """Return True if the manifest and all of its chunks exist; a full Redis may have evicted some."""
        key = self._key(name)
        with _translate_errors():
            manifest = self._read_manifest(key)
            return manifest is not None and self._client.exists(key, *_chunk_keys(key, manifest)) == 1 + manifest.chunks

    def put(self, name: str, source: Path) -> None:
        """Store a local file. If the artifact exists already, only renew its expiry."""
        self._put(name, lambda: source.stat().st_size, lambda: source.open("rb"))

    def put_bytes(self, name: str, data: bytes) -> None:
        """Store bytes in the same way."""
        self._put(name, lambda: len(data), lambda: BytesIO(data))

    def _put(self, name: str, measure: Callable[[], int], open_source: Callable[[], BinaryIO]) -> None:
        key = self._key(name)
        with _translate_errors():
            manifest = self._read_manifest(key)
            if manifest is not None:
                renewed = manifest.model_copy(update={"modified": self._now()})
                if self._write_manifest(key, renewed, existing=True):
                    return
            size = measure()
            if size > self._limit:
                raise SettingsError(
                    f"{name} has {size:,} bytes; Redis takes up to {self._limit:,}. "
                    "Set MAABO_STORE to a directory that all machines share or to an s3:// bucket."
                )
            self._write(name, open_source)

    def get(self, name: str, target: Path) -> None:
        """Copy an artifact to a local file and verify its size and SHA-256."""
        key = self._key(name)
        with _translate_errors():
            manifest = self._read_manifest(key)
            if manifest is None:
                raise MissingArtifactError(f"{name} is not in Redis.")
            with atomic_write(target) as file:
                self._copy(name, manifest, file)

    def delete(self, name: str) -> None:
        """Remove an artifact."""
        key = self._key(name)
        with _translate_errors():
            manifest = self._read_manifest(key)
            # One command, so that no reader finds the manifest without its chunks.
            self._client.delete(key, *(_chunk_keys(key, manifest) if manifest else ()))

    def list(self) -> Iterator[Artifact]:
        """Yield all artifacts that have a manifest."""
        start = f"{self._prefix}{KEY}:"
        with _translate_errors():
            keys = self._client.scan_iter(match=f"{start}*", count=1000)
            names = {key.decode(errors="replace")[len(start) :] for key in keys}
            # Keys of chunks do not match the pattern.
            manifests = {
                name: self._read_manifest(self._key(name)) for name in sorted(names) if ARTIFACT_NAME.fullmatch(name)
            }
        for name, manifest in manifests.items():
            if manifest is not None:
                yield Artifact(name, manifest.size, manifest.modified)

    def _key(self, name: str) -> str:
        return f"{self._prefix}{KEY}:{check_name(name)}"

    def _read_manifest(self, key: str) -> "_Manifest | None":
        text = self._client.get(key)
        try:
            return _Manifest.model_validate_json(text) if text else None
        except ValidationError:  # treated as missing: the next `put` writes it again
            return None

    def _write(self, name: str, open_source: Callable[[], BinaryIO]) -> None:
        key, written = self._key(name), list[str]()
        digest, size = sha256(), 0
        try:
            with open_source() as file:
                while chunk := file.read(CHUNK_BYTES):
                    written.append(f"{key}:{len(written)}")
                    self._client.set(written[-1], chunk, ex=self._lifetime)
                    digest.update(chunk)
                    size += len(chunk)
            manifest = _Manifest(size=size, chunks=len(written), modified=self._now(), sha256=digest.hexdigest())
            if not self._write_manifest(key, manifest, existing=False):
                raise StoreError(f"Redis evicted part of {name} during the upload; it may be out of memory.")
        except redis.ResponseError:  # rejected, most likely out of memory
            with suppress(redis.RedisError):
                if self._read_manifest(key) is None:  # else they belong to another client that finished first
                    self._client.delete(*written)
            raise

    def _write_manifest(self, key: str, manifest: "_Manifest", *, existing: bool) -> bool:
        """Write the manifest and set the expiry of all keys; False if one of them is missing."""
        with self._client.pipeline(transaction=True) as pipe:
            for chunk_key in _chunk_keys(key, manifest):
                pipe.expire(chunk_key, self._lifetime)
            pipe.set(key, manifest.model_dump_json(), ex=self._lifetime, xx=existing)
            return all(pipe.execute())

    def _copy(self, name: str, manifest: "_Manifest", file: BinaryIO) -> None:
        digest, size = sha256(), 0
        for number, chunk_key in enumerate(_chunk_keys(self._key(name), manifest), 1):
            chunk = self._client.get(chunk_key)
            if chunk is None:  # another `get` would fail too, until the next `put`
                raise MissingArtifactError(
                    f"Redis no longer holds all of {name}: chunk {number} of {manifest.chunks} expired or was evicted."
                )
            digest.update(chunk)
            size += len(chunk)
            file.write(chunk)
        if size != manifest.size:
            raise StoreError(f"{name} in Redis is damaged: it has {size:,} bytes, {manifest.size:,} were written.")
        if digest.hexdigest() != manifest.sha256:
            raise StoreError(
                f"{name} in Redis is damaged: its content does not match its SHA-256 {manifest.sha256[:12]}…."
            )

    def _now(self) -> float:
        """Return the time of the server, because clients' clocks differ."""
        seconds, microseconds = self._client.time()
        return float(seconds + microseconds / 1e6)


class FallbackStore:
    """A primary store with a fallback.

    Workers and schedulers look in the cluster's store, then in Redis, where clients without access to the store put
    tables.
    """

    def __init__(self, primary: ArtifactStore, fallback: ArtifactStore) -> None:
        self._primary, self._fallback = primary, fallback

    def has(self, name: str) -> bool:
        """Return True if one of the stores holds this artifact."""
        try:
            if self._primary.has(name):
                return True
        except StoreError:
            if self._fallback.has(name):
                return True
            raise
        return self._fallback.has(name)

    def put(self, name: str, source: Path) -> None:
        """Store a local file in the first store."""
        self._primary.put(name, source)

    def put_bytes(self, name: str, data: bytes) -> None:
        """Store bytes in the first store."""
        self._primary.put_bytes(name, data)

    def get(self, name: str, target: Path) -> None:
        """Copy an artifact to a local file."""
        try:
            self._primary.get(name, target)
        except StoreError as error:
            try:
                self._fallback.get(name, target)
            except MissingArtifactError:
                raise error from None

    def delete(self, name: str) -> None:
        """Remove an artifact from both stores, even if one of them fails."""
        try:
            self._primary.delete(name)
        finally:
            self._fallback.delete(name)

    def list(self) -> Iterator[Artifact]:
        """Yield all artifacts; if both stores have one, yield the newer copy."""
        newest: dict[str, Artifact] = {}
        for item in (*self._primary.list(), *self._fallback.list()):
            if item.name not in newest or item.modified > newest[item.name].modified:
                newest[item.name] = item
        yield from newest.values()


def open_store(settings: ClusterSettings, client: redis.Redis) -> ArtifactStore:
    """Return the cluster's store; `client` is connected to the cluster's Redis.

    `redis://` means that Redis itself. Any other store (a directory, a bucket, `redis://host:port/db` for another
    server) falls back to it for artifacts that it lacks.
    """
    cluster_redis = _redis_store(settings, client)
    url = settings.store_url
    if url in ("redis", "redis:", "redis://", settings.redis_url):
        return cluster_redis
    if not url.startswith(("redis:", "rediss:")):
        return FallbackStore(FileStore(url), cluster_redis)
    try:
        if urlsplit(url).hostname:
            other = open_redis(settings.model_copy(update={"redis_url": url}))
            return FallbackStore(_redis_store(settings, other), cluster_redis)
    except ValueError:
        pass
    # The value may contain a password: neither it nor the message of redis-py is repeated.
    raise SettingsError(
        "MAABO_STORE is not a Redis URL, such as redis://user:password@host:port/db; "
        "redis:// alone means the Redis of the cluster."
    )


class _Manifest(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    size: int = Field(ge=0)
    chunks: int = Field(ge=0, le=1 << 16)
    modified: float
    sha256: str


def _redis_store(settings: ClusterSettings, client: redis.Redis) -> RedisStore:
    # A table must not expire before the record of its job.
    return RedisStore(client, settings.prefix, lifetime=max(LIFETIME, settings.retention))


def _chunk_keys(key: str, manifest: _Manifest) -> Iterator[str]:
    return (f"{key}:{number}" for number in range(manifest.chunks))


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except redis.RedisError as error:
        raise StoreError(f"The artifact store in Redis failed: {error}.") from error
    except OSError as error:  # from the local file
        raise StoreError(f"An artifact could not be copied: {error}.") from error
