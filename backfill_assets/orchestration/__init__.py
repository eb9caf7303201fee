"""Orchestration: assets, checks, jobs and the sensors of Dagster, derived from a domain.

They call `application`; every decision is made there and in the ledger.
"""
