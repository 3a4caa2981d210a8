"""The first tables. Written out and not taken from `schema`, which goes on changing; this step never does."""

from alembic import op
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Integer,
    PrimaryKeyConstraint,
    String,
    Text,
    UniqueConstraint,
    text,
)

revision = "0001"
down_revision = None

_NAME, _DIGEST, _PERSON = String(200), String(80), String(256)

_SQLITE_TRIGGERS = [
    "CREATE TRIGGER events_no_update BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events are append-only'); END",
    "CREATE TRIGGER events_no_delete BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events are append-only'); END",
    # INSERT OR REPLACE removes the old row without asking the trigger above.
    "CREATE TRIGGER events_no_replace BEFORE INSERT ON events"
    " WHEN NEW.sequence <> (SELECT coalesce(max(sequence), 0) + 1 FROM events)"
    " OR EXISTS (SELECT 1 FROM events WHERE name = NEW.name AND revision = NEW.revision)"
    " BEGIN SELECT RAISE(ABORT, 'events are append-only'); END",
]
_POSTGRES_TRIGGERS = [
    "CREATE FUNCTION events_append_only() RETURNS trigger LANGUAGE plpgsql AS"
    " $$ BEGIN RAISE EXCEPTION 'events are append-only'; END $$",
    "CREATE TRIGGER events_no_change BEFORE UPDATE OR DELETE ON events FOR EACH ROW EXECUTE FUNCTION events_append_only()",
    "CREATE TRIGGER events_no_truncate BEFORE TRUNCATE ON events FOR EACH STATEMENT EXECUTE FUNCTION events_append_only()",
]


def upgrade() -> None:
    """All tables, and what keeps events from being changed."""
    _events()
    _versions()
    _placements()
    _others()
    for statement in _SQLITE_TRIGGERS if op.get_bind().dialect.name == "sqlite" else _POSTGRES_TRIGGERS:
        op.execute(text(statement))


def _events() -> None:
    op.create_table(
        "events",
        Column("sequence", BigInteger, primary_key=True, autoincrement=False),
        Column("name", _NAME, nullable=False),
        Column("revision", Integer, nullable=False),
        Column("kind", String(32), nullable=False),
        Column("at", BigInteger, nullable=False),
        Column("actor", _PERSON, nullable=False),
        Column("authenticated", String(16), nullable=False),
        Column("reason", Text, nullable=False),
        Column("body", Text, nullable=False),
        Column("previous", String(64), nullable=False),
        Column("hash", String(64), nullable=False),
        UniqueConstraint("name", "revision", name="events_name_revision"),
    )
    op.create_index("events_at", "events", ["at", "sequence"])


def _versions() -> None:
    op.create_table(
        "names",
        Column("name", _NAME, primary_key=True),
        Column("folded", _NAME, nullable=False, unique=True),
        Column("latest", Integer, nullable=False),
        Column("changed_seq", BigInteger, nullable=False),
        Column("changed_at", BigInteger, nullable=False),
    )
    op.create_table(
        "versions",
        Column("name", _NAME, nullable=False),
        Column("number", Integer, nullable=False),
        Column("root", _DIGEST, nullable=False),
        Column("manifest", _DIGEST, nullable=False),
        Column("meta", _DIGEST, nullable=False),
        Column("kind", String(16), nullable=False),
        Column("tier", String(16), nullable=False),
        Column("author", _PERSON, nullable=False),
        Column("references", Text, nullable=False),
        Column("state", String(16), nullable=False),
        Column("state_seq", BigInteger, nullable=False),
        Column("registered_seq", BigInteger, nullable=False),
        Column("registered_at", BigInteger, nullable=False),
        Column("registered_by", _PERSON, nullable=False),
        Column("reason", Text, nullable=False),
        Column("bundle", _DIGEST),
        Column("release", _DIGEST),
        Column("signed_key", String(64)),
        Column("signed_name", _PERSON),
        Column("imported_from", Text),
        PrimaryKeyConstraint("name", "number"),
    )
    op.create_index("ix_versions_root", "versions", ["root"])
    op.create_table(
        "approvals",
        Column("name", _NAME, nullable=False),
        Column("number", Integer, nullable=False),
        Column("sequence", BigInteger, nullable=False),
        Column("approver", _PERSON, nullable=False),
        Column("key", String(64), nullable=False),
        Column("environments", Text, nullable=False),
        Column("signature", Text, nullable=False),
        Column("at", BigInteger, nullable=False),
        Column("actor", _PERSON, nullable=False),
        Column("reason", Text, nullable=False),
        Column("void_seq", BigInteger),
        PrimaryKeyConstraint("name", "number", "sequence"),
    )


def _placements() -> None:
    op.create_table(
        "spots",
        Column("name", _NAME, nullable=False),
        Column("slot", String(16), nullable=False),
        Column("place", _NAME, nullable=False),
        PrimaryKeyConstraint("name", "slot", "place"),
    )
    op.create_table(
        "placements",
        Column("name", _NAME, nullable=False),
        Column("slot", String(16), nullable=False),
        Column("place", _NAME, nullable=False),
        Column("from_seq", BigInteger, nullable=False),
        Column("from_at", BigInteger, nullable=False),
        Column("to_seq", BigInteger),
        Column("to_at", BigInteger),
        Column("version", Integer, nullable=False),
        Column("share", Float),
        Column("shadow", Boolean),
        Column("break_glass", Boolean, nullable=False),
        Column("act", String(32), nullable=False),
        Column("actor", _PERSON, nullable=False),
        Column("authenticated", String(16), nullable=False),
        Column("reason", Text, nullable=False),
        PrimaryKeyConstraint("name", "slot", "place", "from_seq"),
    )
    still = text("to_seq IS NULL")
    for index, columns in {
        "placements_open": ["slot", "place", "name"],
        "placements_open_of_name": ["name", "slot"],
    }.items():
        op.create_index(index, "placements", columns, sqlite_where=still, postgresql_where=still)


def _others() -> None:
    op.create_table(
        "api_keys",
        Column("name", _NAME, primary_key=True),
        Column("sha256", String(64), nullable=False),
        Column("roles", Text, nullable=False),
        Column("added_at", BigInteger, nullable=False),
        Column("added_by", _PERSON, nullable=False),
        Column("removed_at", BigInteger),
    )
    op.create_index("ix_api_keys_sha256", "api_keys", ["sha256"])
    op.create_table(
        "published",
        Column("environment", _NAME, primary_key=True),
        Column("generation", BigInteger, nullable=False),
        Column("digest", _DIGEST, nullable=False),
        Column("sequence", BigInteger, nullable=False),
        Column("at", BigInteger, nullable=False),
    )
    op.create_table(
        "nodes",
        Column("node", _NAME, nullable=False),
        Column("environment", _NAME, nullable=False),
        Column("deployment", _NAME, nullable=False),
        Column("generation", BigInteger, nullable=False),
        Column("digest", _DIGEST, nullable=False),
        Column("state", String(16), nullable=False),
        Column("reason", Text, nullable=False),
        Column("version", Integer),
        Column("seen_at", BigInteger, nullable=False),
        PrimaryKeyConstraint("node", "environment", "deployment"),
    )
