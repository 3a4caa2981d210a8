"""The first tables, taken from `schema`. The first change must copy their old definitions here."""

from alembic import op
from sqlalchemy import text

from flyball.registry.tables import schema

revision = "0001"
down_revision = None

_SQLITE_TRIGGERS = [
    "CREATE TRIGGER events_no_update BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events are append-only'); END",
    "CREATE TRIGGER events_no_delete BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events are append-only'); END",
    # INSERT OR REPLACE removes the old row without firing the trigger above.
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
    """Create all tables, and the triggers that make events append-only."""
    bind = op.get_bind()
    schema.metadata.create_all(bind)
    still = text("to_seq IS NULL")
    for table, index in ((index.table, index) for index in schema.OPEN):
        index.drop(bind)
        columns = [column.name for column in index.columns]
        op.create_index(index.name, str(table), columns, sqlite_where=still, postgresql_where=still)
    for statement in _SQLITE_TRIGGERS if bind.dialect.name == "sqlite" else _POSTGRES_TRIGGERS:
        op.execute(text(statement))
