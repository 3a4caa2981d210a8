"""What servers acknowledged, as intervals made from events; and in their reports, what each of them serves."""

from alembic import op
from sqlalchemy import BigInteger, Column, Integer, PrimaryKeyConstraint, String, Text, text

revision = "0003"
down_revision = "0002"

_NAME, _NODE, _DIGEST = String(200), String(256), String(80)


def upgrade() -> None:
    """Two new tables; the reports are made anew, since servers fill them within seconds."""
    op.create_table(
        "node_spots",
        Column("name", _NAME, nullable=False),
        Column("environment", _NAME, nullable=False),
        Column("node", _NODE, nullable=False),
        PrimaryKeyConstraint("name", "environment", "node"),
    )
    op.create_table(
        "confirmations",
        Column("name", _NAME, nullable=False),
        Column("environment", _NAME, nullable=False),
        Column("node", _NODE, nullable=False),
        Column("from_seq", BigInteger, nullable=False),
        Column("from_at", BigInteger, nullable=False),
        Column("to_seq", BigInteger),
        Column("to_at", BigInteger),
        Column("generation", BigInteger, nullable=False),
        Column("version", Integer),
        Column("digest", _DIGEST),
        Column("state", String(16), nullable=False),
        Column("reason", Text, nullable=False),
        Column("unsaid", BigInteger, nullable=False),
        Column("serving_version", Integer),
        Column("serving_digest", _DIGEST),
        Column("serving_since", BigInteger),
        PrimaryKeyConstraint("name", "environment", "node", "from_seq"),
    )
    still = text("to_seq IS NULL")
    columns = ["node", "environment"]
    op.create_index("confirmations_open", "confirmations", columns, sqlite_where=still, postgresql_where=still)
    _nodes()


def _nodes() -> None:
    op.drop_table("nodes")
    op.create_table(
        "nodes",
        Column("node", _NODE, nullable=False),
        Column("environment", _NAME, nullable=False),
        Column("deployment", _NAME, nullable=False),
        Column("generation", BigInteger, nullable=False),
        Column("digest", _DIGEST, nullable=False),
        Column("state", String(16), nullable=False),
        Column("reason", Text, nullable=False),
        Column("version", Integer),
        Column("seen_at", BigInteger, nullable=False),
        Column("serving_version", Integer),
        Column("serving_digest", _DIGEST),
        Column("serving_since", BigInteger),
        Column("unsaid", BigInteger, nullable=False),
        PrimaryKeyConstraint("node", "environment", "deployment"),
    )
