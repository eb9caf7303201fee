"""What closing the doors needs of the ledger; one function per subject, in the order they are called."""

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    pass
