"""Which addresses belong to hosts on the internet, in every form in which an IPv4 address can be written as IPv6."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maabo_dist._util.network import is_public

PRIVATE = [
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24"),
    *("192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
    *("224.0.0.0/4", "240.0.0.0/4"),
]
# The IPv4 address of each form is in its last 32 bits, except for 6to4 and Teredo.
MAPPED, COMPATIBLE, TRANSLATED, LOCALLY_TRANSLATED = "::ffff:0:0", "::", "64:ff9b::", "64:ff9b:1::"


def in_networks(*networks):
    parsed = st.sampled_from([ip_network(network) for network in networks])
    return parsed.flatmap(lambda network: st.integers(0, network.num_addresses - 1).map(lambda index: network[index]))


def embedded(prefix, address):
    return IPv6Address(int(IPv6Address(prefix)) | int(address))


def six_to_four(address):
    return IPv6Address(0x2002 << 112 | int(address) << 80 | 1)


def teredo(server, client):
    return IPv6Address(0x20010000 << 96 | int(server) << 64 | (int(client) ^ 0xFFFFFFFF))


@given(in_networks(*PRIVATE))
def test_no_private_address_is_public_in_any_form(address):
    public = IPv4Address("93.184.215.14")
    forms = [embedded(prefix, address) for prefix in (MAPPED, COMPATIBLE, TRANSLATED, LOCALLY_TRANSLATED)]
    forms += [six_to_four(address), teredo(address, public), teredo(public, address)]

    assert not any(map(is_public, [address, *forms]))


@given(st.ip_addresses(v=4))
def test_an_embedded_address_is_public_if_it_would_be_public_by_itself(address):
    assert is_public(embedded(MAPPED, address)) == is_public(address)
    assert is_public(embedded(TRANSLATED, address)) == is_public(address)
    assert not is_public(embedded(COMPATIBLE, address))
    assert not is_public(six_to_four(address))


@given(st.ip_addresses(v=6))
def test_a_public_ipv6_address_is_global_unicast_or_contains_a_public_ipv4_address(address):
    if is_public(address):
        inner = IPv4Address(int(address) & 0xFFFFFFFF)
        embedding = any(address in ip_network(f"{prefix}/96") for prefix in (MAPPED, TRANSLATED))
        assert is_public(inner) if embedding else address in ip_network("2000::/3")


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f:cb07::1", "64:ff9b::5db8:d70e"])
def test_ordinary_addresses_are_public(address):
    assert is_public(ip_address(address))
