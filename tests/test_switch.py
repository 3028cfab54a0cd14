"""The hosts and the switch that other tests rely on: what reaches whom, and that nothing is left."""

import json
import signal
import subprocess
import sys

import psutil
import pytest

from tests import hosts, servers

ECHO = """
import socket
with socket.create_server(("", 7)) as server:
    print("listening", flush=True)
    while True:
        with server.accept()[0] as peer:
            peer.sendall(peer.recv(100_000, socket.MSG_WAITALL))
"""
CALL = """
import socket, sys
with socket.create_connection((sys.argv[1], 7), timeout=float(sys.argv[2])) as peer:
    peer.sendall(bytes(100_000))
    print(len(peer.makefile("rb").read(100_000)))
"""


@pytest.fixture(autouse=True)
def _machine():
    hosts.need()


@pytest.fixture
def network():
    with hosts.Network() as network:
        yield network


@pytest.fixture
def two(network, tmp_path):
    """One host that listens and one that does not."""
    here, there = network.host("here"), network.host("there")
    there.run([sys.executable, "-S", "-c", ECHO], {}, tmp_path / "echo.log").ready("listening")
    return here, there


def asked(host, *command):
    return subprocess.run([*host.entering, *command], capture_output=True, text=True, check=False)


def called(here, there, seconds=10.0):
    """What comes back of 100,000 bytes."""
    return asked(here, sys.executable, "-S", "-c", CALL, there.address, str(seconds)).stdout.strip()


def test_hosts_reach_each_other(two):
    assert called(*two) == "100000"


def test_hosts_have_names_of_their_own_and_no_way_out(two):
    assert [asked(host, "hostname").stdout.strip() for host in two] == ["here", "there"]
    for host in two:
        links = {link["ifname"] for link in json.loads(asked(host, "ip", "-json", "link", "show", "up").stdout)}
        routes = [route["dst"] for route in json.loads(asked(host, "ip", "-json", "route").stdout)]
        assert links == {"lo", "eth0"}
        assert routes == ["10.77.0.0/24"]


@pytest.mark.parametrize("cut", ["cut", "silence"])
def test_a_host_that_is_cut_off_is_not_reached_until_it_is_mended(network, two, cut):
    here, there = two
    getattr(network, cut)(there)
    assert called(here, there, 0.3) == ""
    network.mend()

    assert called(here, there) == "100000"


def test_a_link_that_goes_down_comes_back(two):
    here, there = two
    there.link("down")
    assert called(here, there, 0.3) == ""
    there.link("up")

    assert called(here, there) == "100000"


def test_tcp_mends_what_is_lost_doubled_and_reordered(network, two):
    network.change(loss=0.05, twice=0.1, jitter=0.01)

    assert called(*two, seconds=30) == "100000"
    assert all(network.counts[what] for what in ("loss", "twice", "late"))


@pytest.mark.soak
def test_what_runs_in_hosts_ends_with_the_process_that_made_them():
    program = (
        "import sys, time\n"
        "from tests.hosts import Network\n"
        "network = Network()\n"
        "host = network.host('alone')\n"
        "process = host.run(['sleep', '600'], {}, '/dev/null')\n"
        "print(process.pid, host.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    maker = subprocess.Popen([sys.executable, "-c", program], cwd=servers.ROOT, stdout=subprocess.PIPE, text=True)
    pids = [int(pid) for pid in maker.stdout.readline().split()]
    assert all(map(psutil.pid_exists, pids))
    maker.send_signal(signal.SIGKILL)
    maker.wait()
    maker.stdout.close()

    servers.wait_for(lambda: not any(map(psutil.pid_exists, pids)), 10, what="the end of all of them")
