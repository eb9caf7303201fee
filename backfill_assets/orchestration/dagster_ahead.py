"""Dagster and nothing else, for a thread of its own: two threads may not be inside the imports of one package."""

import dagster

__all__ = ["dagster"]
