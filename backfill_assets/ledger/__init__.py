"""Ledger: manifests, states, hash-chained events and partition versions in a database."""
