"""Addresses of machines, and delays between attempts to reach them."""

import ipaddress
from math import inf
from random import SystemRandom


def is_loopback(host: str) -> bool:
    """True if the address can only be reached from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


# Far beyond any maximum; more doublings would overflow a float.
_MAX_DOUBLINGS = 100
_random = SystemRandom().random


def backoff_delay(first: float, failures: int, maximum: float = inf) -> float:
    """Return `first` for 0 earlier failures, twice as much for 1, and so on, but at most `maximum`."""
    return min(maximum, first * 2.0 ** min(failures, _MAX_DOUBLINGS))


def jittered(delay: float) -> float:
    """Return a random delay between half of `delay` and all of it, so that many clients do not retry in step."""
    return delay * (0.5 + _random() / 2)
