"""Publication: authority, verdict, publish, roll back and follow; it combines the ledger and the swap."""
