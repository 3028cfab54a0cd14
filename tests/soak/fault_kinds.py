"""The faults of a run of chaos, by their names. Each is a function; what has to be undone is undone later."""

import os
import signal
import time
from contextlib import suppress

from sqlalchemy import text

from tests.faults.fuzz import Fuzz

SHORT, LONG = (0.2, 2.0), (3.0, 9.0)
"""Seconds that something stays frozen: less than every timeout, or longer than the lease and most timeouts."""
CLOCK_OFFSETS = (-3600.0, -20.0, 0.0, 20.0, 3600.0)
POISON = 4
"""Malformed messages of one fault, and as many requests."""
_END_SESSIONS = text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")


class Faults:
    """Chooses and causes faults. `later(seconds, action)` plans to undo one."""

    def __init__(self, chaos, random, later):
        self._chaos, self._world, self._random, self._later = chaos, chaos.world, random, later
        self.fuzz = Fuzz(chaos.world, random.getrandbits(32))
        self.redis_back = 0.0

    def cause(self):
        """Cause a fault and return its name."""
        kind, fault = self._random.choice(list(self._kinds().items()))
        fault()
        return kind

    def _kinds(self):
        proxy = self._world.proxy
        kinds = {
            "scheduler killed": lambda: self._scheduler().signal(signal.SIGKILL),
            "scheduler terminated": lambda: self._scheduler().signal(signal.SIGTERM),
            "scheduler frozen": lambda: self._freeze(self._scheduler().pid, LONG),
            "clock of a scheduler set": self._set_clock,
            "worker killed": lambda: self._worker().signal(signal.SIGKILL),
            "worker terminated": lambda: self._worker().signal(signal.SIGTERM),
            "worker frozen": lambda: self._freeze(self._worker().pid, LONG),
            "worker child killed": lambda: os.kill(self._child(), signal.SIGKILL),
            "worker child frozen": lambda: self._freeze(self._child(), LONG),
            "Redis killed": self._kill_redis,
            "Redis emptied": self._world.client.flushall,
            "Redis frozen": lambda: self._freeze(self._world.redis.pid, self._random.choice([SHORT, LONG])),
            "Redis full": self._fill_redis,
            "connections cut": proxy.cut,
            "connections silent": proxy.strand,
            "network frozen": self._freeze_network,
            "network slow": self._slow_network,
            "messages doubled": self._double_messages,
            "replies lost": lambda: proxy.lose_reply(self._random.choice([b"XADD", b"LPUSH", b"XDEL"]), 3),
            "poison messages": self._send_poison,
        }
        if self._chaos.disk is not None:
            kinds["disk of the ledger full"] = self._fill_disk
        if self._world.settings.ledger_url.startswith("postgresql"):
            kinds["sessions of PostgreSQL ended"] = self._end_sessions
        return kinds

    def _scheduler(self):
        return self._random.choice(self._chaos.schedulers)

    def _worker(self):
        return self._random.choice(self._chaos.workers)

    def _child(self):
        children = self._worker().children
        if not children:
            raise ProcessLookupError
        return self._random.choice(children)

    def _set_clock(self):
        self._scheduler().clock_file.write_text(str(self._random.choice(CLOCK_OFFSETS)))

    def _kill_redis(self):
        self.redis_back = time.monotonic() + self._random.uniform(*self._random.choice([SHORT, LONG]))
        self._world.redis.kill()

    def _fill_redis(self):
        self._world.client.config_set("maxmemory", 1)
        self._later(SHORT, lambda: self._world.client.config_set("maxmemory", 0))

    def _freeze(self, process, seconds):
        os.kill(process, signal.SIGSTOP)
        self._later(seconds, lambda: os.kill(process, signal.SIGCONT))

    def _freeze_network(self):
        self._world.proxy.freeze()
        self._later(self._random.choice([SHORT, LONG]), self._world.proxy.thaw)

    def _slow_network(self):
        self._world.proxy.delay(0.0, 0.1)
        self._later(LONG, lambda: self._world.proxy.delay(0.0))

    def _double_messages(self):
        self._world.proxy.duplicate_commands(b"XADD", b"LPUSH")
        self._later(LONG, self._world.proxy.duplicate_commands)

    def _send_poison(self):
        for _ in range(POISON):
            self.fuzz.send_message()
            self.fuzz.send_request()

    def _fill_disk(self):
        filler = self._chaos.disk / "filler"
        with filler.open("wb") as file, suppress(OSError):  # until the disk is full
            while True:
                file.write(bytes(1 << 20))
                file.flush()
        self._later(SHORT, lambda: filler.unlink(missing_ok=True))

    def _end_sessions(self):
        with self._world.ledger.database.engine.connect() as connection:
            connection.execute(_END_SESSIONS)
