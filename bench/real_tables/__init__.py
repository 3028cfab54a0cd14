"""Our default run and eight other rule miners on real tables that come inside packages of the package index."""
