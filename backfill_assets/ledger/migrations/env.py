"""Alembic environment: uses only the connection and the transaction that `upgrade` has opened."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
