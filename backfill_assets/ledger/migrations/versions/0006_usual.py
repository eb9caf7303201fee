"""The numbers of gates on the usual are kept among the samples, as a kind of their own."""

from alembic import op

from backfill_assets.ledger.findings import SampleKind
from backfill_assets.ledger.schema import samples

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        # SQLite changes which kinds a column may have by making its table anew.
        with op.batch_alter_table("samples", copy_from=samples, recreate="always"):
            pass
        return
    kinds = ", ".join(f"'{kind}'" for kind in SampleKind)
    op.drop_constraint("sample_kind", "samples")
    op.create_check_constraint("sample_kind", "samples", f"kind IN ({kinds})")
