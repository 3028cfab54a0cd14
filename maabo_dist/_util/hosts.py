"""Addresses of machines."""

import ipaddress


def is_loopback(host: str) -> bool:
    """True if the address can only be reached from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
