"""The ledger: the durable record of jobs, searches, leases and tenants."""
