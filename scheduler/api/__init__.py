"""The HTTP API of a cluster. It is stateless: everything is in the ledger and in Redis, so any number can run."""
