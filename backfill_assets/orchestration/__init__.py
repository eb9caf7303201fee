"""Dagster: assets, checks, jobs, sensors, resources."""
