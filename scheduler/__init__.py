"""The scheduler process: keeps jobs in a ledger, proposes subsets, sends them to workers, gathers their answers."""
