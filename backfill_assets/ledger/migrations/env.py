"""Alembic environment: uses only the connection and the transaction that `upgrade` has opened."""

from alembic import context

from backfill_assets.ledger import partial_indexes  # noqa: F401 - the indexes belong to the schema
from backfill_assets.ledger.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
