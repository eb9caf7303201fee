"""The first schema. An empty database is given the present one as a whole, so this is where later revisions begin."""

revision = "0001"
down_revision = None


def upgrade() -> None:
    pass
