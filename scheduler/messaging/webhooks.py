"""`Webhooks`: posts that tell other services of the end of a job, in threads of their own, until they are taken.

    due in the ledger ─claimed─► POST ─2xx─► noted as called, once
                                  │ anything else: noted, to be tried again after a pause that doubles
                                  └─ the last attempt, or an address that is not to be called: given up, with a warning

Claims and attempts stand in the ledger: a scheduler that dies leaves them to the next one.
"""

import hmac
import http.client
import json
import socket
import ssl
from collections.abc import Callable
from hashlib import sha256
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from threading import Event, Lock, Timer
from urllib.parse import urlsplit

from maabo_dist._util.backoff import backoff_delay
from maabo_dist._version import __version__
from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.contract.job import Webhook
from maabo_dist.errors import MaaboError, SettingsError
from scheduler.core.preparation import Workshop
from scheduler.ledger.database import LedgerError
from scheduler.ledger.jobs import JobRow
from scheduler.metrics import WEBHOOKS
from scheduler.resources import Resources

logger = StructuredLogger("maabo.scheduler.webhooks")

THREADS = 8
LONGEST_PAUSE = 3600.0
EVENT, SIGNATURE = "Maabo-Event", "Maabo-Signature"

Address = IPv4Address | IPv6Address


class ForbiddenAddressError(SettingsError):
    """A webhook leads to where schedulers must not call."""


class UndeliveredError(MaaboError):
    """The receiver did not take the event."""


class Webhooks:
    """Delivers events of claimed jobs. A receiver that is slow or dead holds up one thread for a while, no job."""

    def __init__(self, resources: Resources) -> None:
        self._resources, self._settings, self._ledger = resources, resources.settings, resources.ledger
        self._workshops: list[Workshop[None]] = [Workshop() for _ in range(THREADS)]
        self._under_way: dict[str, int] = {}
        self._lock = Lock()

    def deliver(self, row: JobRow, webhook: Webhook, until: float) -> None:
        """Post the end of a job soon, if its turn comes before the claim runs out."""
        with self._lock:
            if row.id in self._under_way:
                return
            busy = list(self._under_way.values())
            self._under_way[row.id] = number = min(range(THREADS), key=busy.count)
        self._workshops[number].order(lambda: self._in_turn(row, webhook, until))

    def close(self) -> None:
        """Nothing more will be delivered; what is under way may be delivered again by another scheduler."""
        for workshop in self._workshops:
            workshop.close()

    def _in_turn(self, row: JobRow, webhook: Webhook, until: float) -> None:
        try:
            if self._resources.clock() + self._settings.webhook_seconds < until:
                self._attempt(row, webhook)
        except LedgerError as error:  # it is delivered again when the claim has run out
            logger.warning("delivery not noted", job=row.id, reason=error)
        finally:
            with self._lock:
                del self._under_way[row.id]

    def _attempt(self, row: JobRow, webhook: Webhook) -> None:
        facts = {
            "job": row.id,
            "to": webhook.origin,
            "attempt": row.callback_attempts + 1,
            "correlation": row.spec.correlation,
        }
        try:
            post(webhook, event_of(row), self._settings, self._resources.clock)
        except ForbiddenAddressError as error:
            self._ledger.callbacks.record_failure([row.id], None)
            self._resources.metrics.count(WEBHOOKS, "given_up")
            logger.warning("webhook given up", **facts, reason=error)
        except (UndeliveredError, OSError, ValueError, http.client.HTTPException) as error:  # ValueError: no name
            self._missed(row, f"{type(error).__name__}: {error}", facts)
        else:
            self._ledger.callbacks.record_success([row.id], self._resources.clock())
            self._resources.metrics.count(WEBHOOKS, "delivered")
            logger.info("webhook delivered", **facts)

    def _missed(self, row: JobRow, reason: str, facts: dict[str, object]) -> None:
        if row.callback_attempts + 1 >= self._settings.webhook_attempts:
            self._ledger.callbacks.record_failure([row.id], None)
            self._resources.metrics.count(WEBHOOKS, "given_up")
            logger.warning("webhook given up", **facts, reason=reason)
        else:
            pause = backoff_delay(self._settings.webhook_pause, row.callback_attempts, LONGEST_PAUSE)
            self._ledger.callbacks.record_failure([row.id], self._resources.clock() + pause)
            self._resources.metrics.count(WEBHOOKS, "failed")
            logger.warning("webhook not delivered; tried again later", **facts, seconds=pause, reason=reason)


def event_of(row: JobRow) -> dict[str, object]:
    """What is posted. The same event has the same id however often it comes."""
    kind = "job.ended"
    event = sha256(f"{kind} {row.id}".encode()).hexdigest()[:32]
    told = {"job": row.id, "state": row.state.value, "digest": row.digest, "reason": row.reason}
    return {"id": event, "type": kind, **told}


def signature(secret: str, moment: int, body: bytes) -> str:
    """The value of the header: a time, and the HMAC-SHA256 of that time, a full stop and the body."""
    code = hmac.new(secret.encode(), b"%d." % moment + body, sha256).hexdigest()
    return f"t={moment},v1={code}"


def post(webhook: Webhook, event: dict[str, object], settings: ClusterSettings, clock: Callable[[], float]) -> None:
    """Post an event; whatever is not an answer of 2xx in time is an error. No redirect is followed, no proxy asked."""
    body = json.dumps(event).encode()
    headers = {"Content-Type": "application/json", "User-Agent": f"maabo/{__version__}", EVENT: str(event["id"])}
    if webhook.secret is not None:
        headers[SIGNATURE] = signature(webhook.secret, int(clock()), body)
    url = urlsplit(webhook.url)
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    connection, late = _connection(webhook, settings), Event()
    # A receiver that sends a byte now and then never runs into the time-out of the socket.
    end = Timer(settings.webhook_seconds, _cut, [connection, late])
    end.daemon = True
    end.start()
    try:
        connection.connect()
        connection.request("POST", target, body, headers)
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        if late.is_set() or isinstance(error, TimeoutError):
            raise UndeliveredError(f"The receiver has not answered in {settings.webhook_seconds:g} s.") from error
        raise
    finally:
        end.cancel()
        connection.close()
    if not 200 <= status < 300:
        raise UndeliveredError(f"The receiver answered with status {status}.")


def check_place(webhook: Webhook, settings: ClusterSettings) -> None:
    """Refuse an address of which it can be said without asking anyone that it is not to be called."""
    host = urlsplit(webhook.url).hostname or ""
    try:
        addresses = [ip_address(host)]
    except ValueError:
        if host != "localhost" and not host.endswith(".localhost"):
            return
        addresses = [ip_address("127.0.0.1")]
    _check_addresses(host, addresses, settings.webhook_hosts)


def _connection(webhook: Webhook, settings: ClusterSettings) -> http.client.HTTPConnection:
    """To an address that was looked up and judged here: a name that changes in between leads nowhere else."""
    url = urlsplit(webhook.url)
    secure, host = url.scheme == "https", url.hostname or ""
    port = url.port or (443 if secure else 80)
    found = [info[4][0] for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    _check_addresses(host, [ip_address(str(address).partition("%")[0]) for address in found], settings.webhook_hosts)
    place, seconds = (str(found[0]), port), settings.webhook_seconds
    return _Secure(host, place, seconds) if secure else _Plain(host, place, seconds)


class _Plain(http.client.HTTPConnection):
    """Speaks to a place under the name of a host."""

    def __init__(self, host: str, place: tuple[str, int], seconds: float) -> None:
        super().__init__(host, place[1], timeout=seconds)
        self._place, self._seconds = place, seconds

    def connect(self) -> None:
        self.sock = socket.create_connection(self._place, self._seconds)


class _Secure(_Plain):
    default_port = http.client.HTTPS_PORT

    def connect(self) -> None:
        super().connect()
        context = ssl.create_default_context()
        sock = context.wrap_socket(self.sock, server_hostname=self.host, do_handshake_on_connect=False)
        self.sock = sock  # so that it can be cut
        sock.do_handshake()


def _cut(connection: http.client.HTTPConnection, late: Event) -> None:
    late.set()
    sock = connection.sock
    if sock is not None:
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:  # it has ended by itself
            return


def _check_addresses(host: str, addresses: list[Address], allowed: str) -> None:
    """Only what is public, or what MAABO_WEBHOOK_HOSTS names."""
    entries = [entry.strip().lower() for entry in allowed.split(",") if entry.strip()]
    if any(_names(entry, host.lower()) for entry in entries):
        return
    for address in addresses:
        judged = (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
        public = judged.is_global and not judged.is_multicast
        if not public and not any(_holds(entry, judged) for entry in entries):
            raise ForbiddenAddressError(
                f"{host} is at {address}, which is not a public address.",
                field="callback.url",
                remedy="Name the host or its network in MAABO_WEBHOOK_HOSTS of the schedulers to permit it.",
            )


def _names(entry: str, host: str) -> bool:
    return entry in {"*", host} or (entry.startswith("*.") and host.endswith(entry[1:]))


def _holds(entry: str, address: Address) -> bool:
    try:
        return address in ip_network(entry, strict=False)
    except ValueError:  # the name of a host
        return False
