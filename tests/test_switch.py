"""The virtual hosts and the switch that other tests use: who can reach whom, and complete removal."""

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
def client_and_server(network, tmp_path):
    """A client host, and a host that runs an echo server."""
    client, server = network.host("here"), network.host("there")
    server.run([sys.executable, "-S", "-c", ECHO], {}, tmp_path / "echo.log").ready("listening")
    return client, server


def run_in(host, *command):
    return subprocess.run([*host.entering, *command], capture_output=True, text=True, check=False)


def count_echoed(client, server, seconds=10.0):
    """Send 100,000 bytes and return the number of bytes echoed."""
    return run_in(client, sys.executable, "-S", "-c", CALL, server.address, str(seconds)).stdout.strip()


def test_hosts_reach_each_other(client_and_server):
    assert count_echoed(*client_and_server) == "100000"


def test_each_host_has_its_own_name_and_no_route_out(client_and_server):
    assert [run_in(host, "hostname").stdout.strip() for host in client_and_server] == ["here", "there"]
    for host in client_and_server:
        links = {link["ifname"] for link in json.loads(run_in(host, "ip", "-json", "link", "show", "up").stdout)}
        routes = [route["dst"] for route in json.loads(run_in(host, "ip", "-json", "route").stdout)]
        assert links == {"lo", "eth0"}
        assert routes == ["10.77.0.0/24"]


@pytest.mark.parametrize("cut", ["cut", "silence"])
def test_a_host_that_is_cut_off_is_unreachable_until_the_network_is_repaired(network, client_and_server, cut):
    client, server = client_and_server
    getattr(network, cut)(server)
    assert count_echoed(client, server, 0.3) == ""
    network.repair()

    assert count_echoed(client, server) == "100000"


def test_a_link_can_be_set_down_and_up(client_and_server):
    client, server = client_and_server
    server.link("down")
    assert count_echoed(client, server, 0.3) == ""
    server.link("up")

    assert count_echoed(client, server) == "100000"


def test_tcp_recovers_from_lost_duplicated_and_reordered_frames(network, client_and_server):
    network.change(loss=0.05, twice=0.1, jitter=0.01)

    assert count_echoed(*client_and_server, seconds=30) == "100000"
    assert all(network.counts[fault] for fault in ("loss", "twice", "late"))


@pytest.mark.soak
def test_processes_in_hosts_are_killed_with_the_process_that_created_them():
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
