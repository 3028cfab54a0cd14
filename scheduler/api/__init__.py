"""The HTTP face of a cluster: `/v1`, stateless over the ledger and Redis, so that any number may run."""
