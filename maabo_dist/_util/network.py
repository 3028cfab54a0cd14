"""Addresses of machines, and delays between attempts to reach them."""

import ipaddress
from ipaddress import IPv4Address, IPv6Address, ip_network
from math import inf
from random import SystemRandom

Address = IPv4Address | IPv6Address


def is_loopback(host: str) -> bool:
    """True if the address can only be reached from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


# Networks of the IANA special-purpose registries that do not lead to a host on the internet. The ipaddress module has
# most of them, but which ones differs between releases of Python.
_SPECIAL = [
    ip_network(network)
    for network in (
        *("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "240.0.0.0/4"),
        *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
    )
]
# The only part of IPv6 from which addresses of hosts have been assigned.
_UNICAST = ip_network("2000::/3")
# A gateway sends packets for addresses of this network to the IPv4 address in their last 32 bits (NAT64).
_TRANSLATED = ip_network("64:ff9b::/96")


def is_public(address: Address) -> bool:
    """True if the address belongs to a host on the internet, also if it is an IPv4 address in the form of IPv6."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address in _TRANSLATED:
            return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
        if address not in _UNICAST:
            return False
    return address.is_global and not address.is_multicast and not any(address in network for network in _SPECIAL)


# Far beyond any maximum; more doublings would overflow a float.
_MAX_DOUBLINGS = 100
_random = SystemRandom().random


def backoff_delay(first: float, failures: int, maximum: float = inf) -> float:
    """Return `first` for 0 earlier failures, twice as much for 1, and so on, but at most `maximum`."""
    return min(maximum, first * 2.0 ** min(failures, _MAX_DOUBLINGS))


def jittered(delay: float) -> float:
    """Return a random delay between half of `delay` and all of it, so that many clients do not retry in step."""
    return delay * (0.5 + _random() / 2)
