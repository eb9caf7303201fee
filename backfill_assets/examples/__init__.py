"""Domains that ship with the project, each written only against `backfill_assets.domain`."""
