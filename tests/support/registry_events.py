"""Events for tests of the registry's storage: bodies with every key, and writes that bypass its locks."""

import hashlib
import sqlite3
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from flyball.registry.events.event import Draft
from flyball.registry.events.log import EventLog
from flyball.registry.tables.database import Database


def digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def registered(name: str, version: int, actor: str = "ana", **others: Any) -> Draft:
    facts = {"root": digest(f"{name}{version}"), "manifest": digest("manifest"), "meta": digest("meta")}
    body = {"version": version, **facts, "tier": "standard", "author": actor, "kind": "model", "references": []}
    return Draft(name, "registered", body | others, actor, "a new one")


def promoted(name: str, version: int, environment: str = "production", actor: str = "bo", **others: Any) -> Draft:
    body = {"version": version, "environment": environment, "previous": None, **others}
    return Draft(name, "promoted", body, actor, "better")


def approved(name: str, version: int, approver: str = "cy") -> Draft:
    body = {"version": version, "environments": ["production"], "key": "0" * 64, "signature": "MEUC", "approver": approver}
    return Draft(name, "approved", body, approver, "looks right")


def sqlite_url(folder: Path) -> str:
    return f"sqlite:///{folder / 'registry.db'}"


def new_sqlite(folder: Path) -> str:
    """The URL of an empty registry: a copy of one that is made once, since making tables takes longer than most tests."""
    (folder / "registry.db").write_bytes(_empty())
    return sqlite_url(folder)


@cache
def _empty() -> bytes:
    with TemporaryDirectory() as folder:
        Database.open(sqlite_url(Path(folder))).close()
        return (Path(folder) / "registry.db").read_bytes()


def opened(url: str) -> tuple[Database, EventLog]:
    database = Database.open(url)
    return database, EventLog(database)


def past_the_triggers(folder: Path, *statements: str) -> None:
    """Change a registry in SQLite as someone with the file would."""
    connection = sqlite3.connect(folder / "registry.db", isolation_level=None)
    for trigger in ("events_no_update", "events_no_delete", "events_no_replace"):
        connection.execute(f"DROP TRIGGER IF EXISTS {trigger}")
    for statement in statements:
        assert connection.execute(statement).rowcount > 0, statement
    connection.close()


def rolled_back(name: str, version: int | None, before: int | None, environment: str = "production") -> Draft:
    return Draft(name, "rolled_back", {"environment": environment, "version": version, "from": before}, "bo", "worse")
