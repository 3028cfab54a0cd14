"""A private RabbitMQ for tests: Debian's, on free ports of the loopback interface, run by the user of the tests."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import amqp
import pytest

from tests import servers

PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""Not the one on the PATH, which changes the user and the directory."""
PASSWORD = "rabbit-only-for-tests"


def needs_rabbitmq():
    """Return a pytest mark that skips tests without RabbitMQ, unless MAABO_TEST_RABBITMQ requires it."""
    available = (PROGRAM.exists() and shutil.which("epmd")) or os.environ.get("MAABO_TEST_RABBITMQ")
    return pytest.mark.skipif(
        not available, reason="no rabbitmq-server is installed (Debian's package rabbitmq-server)"
    )


class RabbitServer:
    """A server that can be killed and restarted with its port and directory. It has its own Erlang port mapper."""

    def __init__(self, directory, certificates=None):
        self.directory = Path(directory)
        self.directory.mkdir(exist_ok=True)
        self.port, mapper, between = servers.free_port(), servers.free_port(), servers.free_port()
        self._mapper_command = ["epmd", "-port", str(mapper), "-address", "127.0.0.1"]
        lines = [f"listeners.tcp.1 = 127.0.0.1:{self.port}", "default_user = maabo", f"default_pass = {PASSWORD}"]
        if certificates is not None:
            self.tls_port = servers.free_port()
            lines += [f"listeners.ssl.1 = 127.0.0.1:{self.tls_port}", "ssl_options.verify = verify_peer"]
            files = {"cacertfile": "ca.crt", "certfile": "server.crt", "keyfile": "server.key"}
            lines += [f"ssl_options.{name} = {certificates.path(file)}" for name, file in files.items()]
        (self.directory / "rabbitmq.conf").write_text("\n".join(lines) + "\n")
        (self.directory / "plugins").write_text("[].\n")
        self._environment = self._variables(mapper, between)
        self._server = self._mapper = None

    def _variables(self, mapper, between):
        return {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(self.directory),
            "ERL_EPMD_PORT": str(mapper),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"test{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(between),
            "RABBITMQ_MNESIA_BASE": str(self.directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.directory / "log"),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_CONFIG_FILE": str(self.directory / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.directory / "plugins"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+sbwt none +A 1",
        }

    @property
    def url(self):
        return f"amqp://maabo:{PASSWORD}@127.0.0.1:{self.port}//"

    def start(self, *, wait=True):
        with (self.directory / "rabbitmq.log").open("ab") as log:
            started = {"env": self._environment, "cwd": self.directory, "stdout": log, "stderr": log}
            if self._mapper is None:
                self._mapper = subprocess.Popen(self._mapper_command, **started)
            self._server = subprocess.Popen([PROGRAM], start_new_session=True, **started)
        if wait:
            self.ready()
        return self

    def ready(self):
        servers.wait_for(self._answers, 90, what="a RabbitMQ that answers")
        return self

    def kill(self):
        """Kill the whole session: the server is a child of a script, and has children itself."""
        if self._server is not None:
            os.killpg(self._server.pid, signal.SIGKILL)
            self._server.wait()
            servers.wait_for(lambda: not self._listens(), what="the end of RabbitMQ")
            self._server = None

    def signal(self, number):
        os.killpg(self._server.pid, number)

    def close(self):
        self.kill()
        if self._mapper is not None:
            self._mapper.kill()
            self._mapper.wait()

    def control(self, *command):
        """Run `rabbitmqctl` and return its output."""
        control_command = [PROGRAM.with_name("rabbitmqctl"), *command]
        return subprocess.run(control_command, env=self._environment, check=True, capture_output=True, text=True).stdout

    def connection(self):
        return amqp.Connection(f"127.0.0.1:{self.port}", userid="maabo", password=PASSWORD)

    def length(self, queue):
        with self.connection() as connection:
            return connection.channel().queue_declare(queue, passive=True).message_count

    def _answers(self):
        assert self._server.poll() is None, (self.directory / "rabbitmq.log").read_text()
        try:
            with self.connection() as connection:
                return connection.connected
        except OSError:
            return False

    def _listens(self):
        try:
            self.connection().connect()
        except OSError:
            return False
        return True
