"""The highest serial of a trust policy that an act was judged by: an older policy is not taken after it."""

from alembic import op
from sqlalchemy import BigInteger, Column, Integer

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """One table, of one row at most."""
    op.create_table(
        "trust_serial",
        Column("id", Integer, primary_key=True, autoincrement=False),
        Column("serial", BigInteger, nullable=False),
    )
