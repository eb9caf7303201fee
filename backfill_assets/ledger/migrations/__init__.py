"""Which steps led to the present schema? Alembic revisions, run by `upgrade` on the connection that it hands over."""
