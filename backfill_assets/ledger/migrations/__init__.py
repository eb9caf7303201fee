"""Migrations: Alembic revisions to the present schema, run by `upgrade` on its connection."""
