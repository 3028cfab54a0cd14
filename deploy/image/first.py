"""The first process of a container. To it the kernel gives orphans, and no signal that it does not wait for.

A role in that place would not hear a SIGTERM that comes before it has set itself up, and would leave the children of
its children as zombies. Signals are blocked and waited for, so that none comes at a bad moment.
"""

import os
import signal
from collections.abc import Mapping

PASSED_ON = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2})


def run_as_first(command: list[str], environment: Mapping[str, str]) -> int:
    """Run a command to its end and pass signals on to it; its exit code, or 128 and the number of what killed it."""
    heard = PASSED_ON | {signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    child = os.posix_spawnp(command[0], command, environment, setsigmask=())
    while True:
        number = signal.sigwait(heard)
        if number != signal.SIGCHLD:
            os.kill(child, number)  # there is one as long as nobody has waited for it
        elif (code := _reap(child)) is not None:
            return code


def _reap(child: int) -> int | None:
    """Wait for all that have ended; the code of the one that matters, if it is among them."""
    code = None
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if ended == 0:
            return code
        if ended == child:
            found = os.waitstatus_to_exitcode(status)
            code = found if found >= 0 else 128 - found
