"""Upkeep: retention, vacuum, audit and reproduction."""
