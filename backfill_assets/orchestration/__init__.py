"""Dagster: how do people and sensors set the operations going, and where do they see what became of them?

Assets, checks, jobs and the sensor are derived from a domain; every decision stays in `operations` and the ledger.
"""
