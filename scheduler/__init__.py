"""The scheduler's books: jobs in a ledger, and for each running job what is proposed, sent, answered and lost."""
