"""The tables: the events, which are the source of truth, and the projections, which can be rebuilt.

Two are neither: `nodes` has the servers' reports, and `trust_serial` the highest serial of a trust policy that an act used.
The migrations create these tables; a test compares them.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, MetaData, String, Table, Text, UniqueConstraint

REVISION = "0001"
"""The newest migration, stated here so that an up-to-date registry opens without importing Alembic."""

metadata = MetaData()

_NAME, _NODE = String(200), String(256)

events = Table(
    "events",
    metadata,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("name", _NAME, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("actor", String(256), nullable=False),
    Column("authenticated", String(16), nullable=False),
    Column("reason", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("previous", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
    UniqueConstraint("name", "revision", name="events_name_revision"),
    Index("events_at", "at", "sequence"),
)

names = Table(
    "names",
    metadata,
    Column("name", _NAME, primary_key=True),
    Column("folded", _NAME, nullable=False, unique=True),
    Column("latest", Integer, nullable=False),
    Column("changed_seq", BigInteger, nullable=False),
    Column("changed_at", BigInteger, nullable=False),
)

versions = Table(
    "versions",
    metadata,
    Column("name", _NAME, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("root", String(80), nullable=False, index=True),
    Column("manifest", String(80), nullable=False),
    Column("meta", String(80), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("tier", String(16), nullable=False),
    Column("author", String(256), nullable=False),
    Column("references", Text, nullable=False),
    Column("state", String(16), nullable=False),
    Column("state_seq", BigInteger, nullable=False),
    Column("registered_seq", BigInteger, nullable=False),
    Column("registered_at", BigInteger, nullable=False),
    Column("registered_by", String(256), nullable=False),
    Column("reason", Text, nullable=False),
    Column("bundle", String(80)),
    Column("release", String(80)),
    Column("signed_key", String(64)),
    Column("signed_name", String(256)),
    Column("imported_from", Text),
)

approvals = Table(
    "approvals",
    metadata,
    Column("name", _NAME, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("sequence", BigInteger, primary_key=True),
    Column("approver", String(256), nullable=False),
    Column("key", String(64), nullable=False),
    Column("environments", Text, nullable=False),
    Column("signature", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("actor", String(256), nullable=False),
    Column("reason", Text, nullable=False),
    Column("void_seq", BigInteger),
)

spots = Table(
    "spots",
    metadata,
    Column("name", _NAME, primary_key=True),
    Column("slot", String(16), primary_key=True),
    Column("place", _NAME, primary_key=True),
)

placements = Table(
    "placements",
    metadata,
    Column("name", _NAME, primary_key=True),
    Column("slot", String(16), primary_key=True),
    Column("place", _NAME, primary_key=True),
    Column("from_seq", BigInteger, primary_key=True),
    Column("from_at", BigInteger, nullable=False),
    Column("to_seq", BigInteger),
    Column("to_at", BigInteger),
    Column("version", Integer, nullable=False),
    Column("share", Float),
    Column("shadow", Boolean),
    Column("break_glass", Boolean, nullable=False),
    Column("act", String(32), nullable=False),
    Column("actor", String(256), nullable=False),
    Column("authenticated", String(16), nullable=False),
    Column("reason", Text, nullable=False),
)

node_spots = Table(
    "node_spots",
    metadata,
    Column("name", _NAME, primary_key=True),
    Column("environment", _NAME, primary_key=True),
    Column("node", _NODE, primary_key=True),
)

confirmations = Table(
    "confirmations",
    metadata,
    Column("name", _NAME, primary_key=True),
    Column("environment", _NAME, primary_key=True),
    Column("node", _NODE, primary_key=True),
    Column("from_seq", BigInteger, primary_key=True),
    Column("from_at", BigInteger, nullable=False),
    Column("to_seq", BigInteger),
    Column("to_at", BigInteger),
    Column("generation", BigInteger, nullable=False),
    Column("version", Integer),
    Column("digest", String(80)),
    Column("state", String(16), nullable=False),
    Column("reason", Text, nullable=False),
    Column("unsaid", BigInteger, nullable=False),
    Column("serving_version", Integer),
    Column("serving_digest", String(80)),
    Column("serving_since", BigInteger),
)

# The few open rows among many ended ones. The migration adds `WHERE to_seq IS NULL`: stated here, PostgreSQL's dialect
# would be imported by everybody.
OPEN = (
    Index("placements_open", placements.c.slot, placements.c.place, placements.c.name),
    Index("placements_open_of_name", placements.c.name, placements.c.slot),
    Index("confirmations_open", confirmations.c.node, confirmations.c.environment),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("name", _NAME, primary_key=True),
    Column("sha256", String(64), nullable=False, index=True),
    Column("roles", Text, nullable=False),
    Column("added_at", BigInteger, nullable=False),
    Column("added_by", String(256), nullable=False),
    Column("removed_at", BigInteger),
)

published = Table(
    "published",
    metadata,
    Column("environment", _NAME, primary_key=True),
    Column("generation", BigInteger, nullable=False),
    Column("digest", String(80), nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
)

nodes = Table(
    "nodes",
    metadata,
    Column("node", _NODE, primary_key=True),
    Column("environment", _NAME, primary_key=True),
    Column("deployment", _NAME, primary_key=True),
    Column("generation", BigInteger, nullable=False),
    Column("digest", String(80), nullable=False),
    Column("state", String(16), nullable=False),
    Column("reason", Text, nullable=False),
    Column("version", Integer),
    Column("seen_at", BigInteger, nullable=False),
    Column("serving_version", Integer),
    Column("serving_digest", String(80)),
    Column("serving_since", BigInteger),
    Column("unsaid", BigInteger, nullable=False),
)

trust_serial = Table(
    "trust_serial",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("serial", BigInteger, nullable=False),
)

PROJECTIONS = (names, versions, approvals, spots, placements, node_spots, confirmations, api_keys, published)
