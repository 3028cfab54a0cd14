"""`Webhooks`: posts the end of jobs to other services, in threads, until the receivers accept it.

    due in the ledger ─claimed─► POST ─2xx─► recorded as called
                                  │ anything else: tried again after a delay that doubles
                                  └─ the last attempt, or a forbidden address: given up, with a warning

Claims and attempts are in the ledger: if a scheduler dies, the next one continues.
"""

import hmac
import http.client
import json
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from ipaddress import IPv6Address, ip_address, ip_network
from threading import Event, Lock, Timer
from urllib.parse import urlsplit

from maabo_dist._util.network import Address, backoff_delay, is_public
from maabo_dist._version import __version__
from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.contract.job import AnyCallback, Webhook
from maabo_dist.errors import MaaboError, SettingsError
from scheduler.background import BackgroundThread
from scheduler.ledger.database import LedgerError
from scheduler.ledger.jobs import JobRow
from scheduler.metrics import WEBHOOKS
from scheduler.resources import Resources

logger = StructuredLogger("maabo.scheduler.webhooks")

THREADS = 8
MAX_DELAY = 3600.0
EVENT, SIGNATURE = "Maabo-Event", "Maabo-Signature"


class ForbiddenAddressError(SettingsError):
    """A webhook's address is one that schedulers must not call."""


class UndeliveredError(MaaboError):
    """The receiver did not accept the event."""


class Webhooks:
    """Delivers events of claimed jobs. A slow or dead receiver blocks one thread for a while, but no job."""

    def __init__(self, resources: Resources) -> None:
        self._clock, self._metrics = resources.clock, resources.metrics
        self._settings, self._callbacks = resources.settings, resources.ledger.callbacks
        self._threads: list[BackgroundThread[None]] = [BackgroundThread() for _ in range(THREADS)]
        self._in_progress: dict[str, int] = {}
        self._lock = Lock()

    def deliver(self, row: JobRow, webhook: Webhook, until: float) -> None:
        """Send the end of a job in the least busy thread, unless the claim expires before its turn."""
        with self._lock:
            if row.id in self._in_progress:
                return
            busy = list(self._in_progress.values())
            self._in_progress[row.id] = number = min(range(THREADS), key=busy.count)
        self._threads[number].submit(lambda: self._deliver(row, webhook, until))

    def close(self) -> None:
        """End the threads; another scheduler may repeat deliveries in progress."""
        for thread in self._threads:
            thread.close()

    def _deliver(self, row: JobRow, webhook: Webhook, until: float) -> None:
        try:
            if self._clock() + self._settings.webhook_seconds < until:
                self._attempt(row, webhook)
        except LedgerError as error:  # it is delivered again when the claim has expired
            logger.warning("webhook delivery not recorded", job=row.id, reason=error)
        finally:
            with self._lock:
                del self._in_progress[row.id]

    def _attempt(self, row: JobRow, webhook: Webhook) -> None:
        attempt = row.callback_attempts + 1
        facts = {"job": row.id, "to": webhook.origin, "attempt": attempt, "correlation": row.spec.correlation}
        try:
            post(webhook, event_of(row), self._settings, self._clock)
        except ForbiddenAddressError as error:
            self._give_up(row, str(error), facts)
        except (UndeliveredError, OSError, ValueError, http.client.HTTPException) as error:  # ValueError: no name
            reason = f"{type(error).__name__}: {error}"
            if attempt >= self._settings.webhook_attempts:
                self._give_up(row, reason, facts)
                return
            delay = backoff_delay(self._settings.webhook_pause, row.callback_attempts, MAX_DELAY)
            self._callbacks.record_failure([row.id], self._clock() + delay)
            self._metrics.count(WEBHOOKS, "failed")
            logger.warning("webhook not delivered; trying again later", **facts, seconds=delay, reason=reason)
        else:
            self._callbacks.record_success([row.id], self._clock())
            self._metrics.count(WEBHOOKS, "delivered")
            logger.info("webhook delivered", **facts)

    def _give_up(self, row: JobRow, reason: str, facts: dict[str, object]) -> None:
        self._callbacks.record_failure([row.id], None)
        self._metrics.count(WEBHOOKS, "given_up")
        logger.warning("webhook given up", **facts, reason=reason)


def event_of(row: JobRow) -> dict[str, object]:
    """The event that is posted. Repeated deliveries have the same id."""
    kind = "job.ended"
    event = sha256(f"{kind} {row.id}".encode()).hexdigest()[:32]
    values = {"job": row.id, "state": row.state.value, "digest": row.digest, "reason": row.reason}
    return {"id": event, "type": kind, **values}


def signature(secret: str, moment: int, body: bytes) -> str:
    """The value of the header: a time, and the HMAC-SHA256 of that time, a full stop and the body."""
    code = hmac.new(secret.encode(), b"%d." % moment + body, sha256).hexdigest()
    return f"t={moment},v1={code}"


def post(webhook: Webhook, event: dict[str, object], settings: ClusterSettings, clock: Callable[[], float]) -> None:
    """Send an event; anything but a 2xx response in time is an error. Redirects and proxies are not used."""
    body = json.dumps(event).encode()
    headers = {"Content-Type": "application/json", "User-Agent": f"maabo/{__version__}", EVENT: str(event["id"])}
    if webhook.secret is not None:
        headers[SIGNATURE] = signature(webhook.secret, int(clock()), body)
    url = urlsplit(webhook.url)
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    connection, timed_out = _connection(webhook, settings), Event()
    # The timeout of the socket does not end a response that arrives byte by byte.
    timer = Timer(settings.webhook_seconds, _abort, [connection, timed_out])
    timer.daemon = True
    timer.start()
    try:
        connection.connect()
        connection.request("POST", target, body, headers)
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        if timed_out.is_set() or isinstance(error, TimeoutError):
            raise UndeliveredError(f"The receiver has not answered in {settings.webhook_seconds:g} s.") from error
        raise
    finally:
        timer.cancel()
        connection.close()
    if not 200 <= status < 300:
        raise UndeliveredError(f"The receiver answered with status {status}.")


def check_address(callback: AnyCallback | None, settings: ClusterSettings) -> None:
    """Refuse a webhook whose address is forbidden, as far as that is known without a name lookup."""
    if not isinstance(callback, Webhook):
        return
    host = urlsplit(callback.url).hostname or ""
    try:
        addresses = [ip_address(host)]
    except ValueError:
        if host != "localhost" and not host.endswith(".localhost"):
            return
        addresses = [ip_address("127.0.0.1")]
    _check_addresses(host, addresses, settings.webhook_hosts)


def _connection(webhook: Webhook, settings: ClusterSettings) -> http.client.HTTPConnection:
    """Connect to an address that was looked up and checked here, so that a changed DNS entry cannot redirect it."""
    url = urlsplit(webhook.url)
    secure, host = url.scheme == "https", url.hostname or ""
    port = url.port or (443 if secure else 80)
    addresses = [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    _check_addresses(host, [ip_address(address.partition("%")[0]) for address in addresses], settings.webhook_hosts)
    target, seconds = (addresses[0], port), settings.webhook_seconds
    return _Secure(host, target, seconds) if secure else _Plain(host, target, seconds)


class _Plain(http.client.HTTPConnection):
    """A connection to an address that sends the host's name."""

    def __init__(self, host: str, target: tuple[str, int], seconds: float) -> None:
        super().__init__(host, target[1], timeout=seconds)
        self._target, self._seconds = target, seconds

    def connect(self) -> None:
        self.sock = socket.create_connection(self._target, self._seconds)


class _Secure(_Plain):
    default_port = http.client.HTTPS_PORT

    def connect(self) -> None:
        super().connect()
        context = ssl.create_default_context()
        sock = context.wrap_socket(self.sock, server_hostname=self.host, do_handshake_on_connect=False)
        self.sock = sock  # so that it can be aborted
        sock.do_handshake()


def _abort(connection: http.client.HTTPConnection, timed_out: Event) -> None:
    timed_out.set()
    sock = connection.sock
    if sock is not None:
        with suppress(OSError):  # already closed
            sock.shutdown(socket.SHUT_RDWR)


def _check_addresses(host: str, addresses: list[Address], allowed: str) -> None:
    """Allow public addresses, and those that MAABO_WEBHOOK_HOSTS names."""
    entries = [entry.strip().lower() for entry in allowed.split(",") if entry.strip()]
    name = host.lower()
    if any(entry in {"*", name} or (entry.startswith("*.") and name.endswith(entry[1:])) for entry in entries):
        return
    for address in addresses:
        plain = (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
        if not is_public(address) and not any(_contains(entry, plain) for entry in entries):
            raise ForbiddenAddressError(
                f"{host} is at {address}, which is not a public address.",
                field="callback.url",
                remedy="Name the host or its network in MAABO_WEBHOOK_HOSTS of the schedulers to permit it.",
            )


def _contains(entry: str, address: Address) -> bool:
    try:
        return address in ip_network(entry, strict=False)
    except ValueError:  # the name of a host
        return False
