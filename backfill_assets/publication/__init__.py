"""Publish, roll back, recover: the ledger and the swap brought together."""
