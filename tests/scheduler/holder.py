"""`python -m tests.scheduler.holder URL OWNER`: a scheduler that holds a job of a ledger until it is killed."""

import sys
import time

from scheduler.ledger import Ledger
from scheduler.ledger.presence import Presence

if __name__ == "__main__":
    url, owner = sys.argv[1:]
    ledger = Ledger(url)
    presence = Presence(ledger.database, owner)
    presence.refresh()
    assert ledger.leases.acquire(owner, ledger.now, 500.0, limit=1)
    print("ready", flush=True)
    time.sleep(600)
