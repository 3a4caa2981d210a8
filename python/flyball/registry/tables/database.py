"""The registry's database, SQLite or PostgreSQL: connections, one writer at a time, readable errors.

Everything in `writing` is one transaction. Must not know events.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from flyball.errors import (
    MissingExtraError,
    RegistryBrokenError,
    RegistryConflictError,
    RegistryRefusedError,
    RegistryUnavailableError,
)

try:
    import sqlalchemy
    from sqlalchemy import event, exc
except ImportError as missing:
    raise MissingExtraError(
        f"the registry needs {missing.name}, which is not installed", next_step="pip install 'flyball[registry]'"
    ) from missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine

    from flyball.errors import FlyballError

WAIT_MS_MAX = 10_000
"""How long to wait for another writer, and for a connection."""
_STATEMENT_MS_MAX = 120_000
_WRITERS_LOCK = 0x666C7962616C6C  # any number unused by others in this database


class Database:
    """Connections to one database with up-to-date tables."""

    def __init__(self, engine: Engine, shown: str) -> None:
        self._engine, self.shown = engine, shown

    @classmethod
    def open(cls, url: str) -> Database:
        """Connect to `sqlite:///PATH` or `postgresql://…`, and migrate the tables."""
        from flyball.registry.tables.upgrade import upgrade

        database = cls(_engine(url), sqlalchemy.make_url(url).render_as_string(hide_password=True))
        try:
            upgrade(database)
        except BaseException:
            database.close()
            raise
        return database

    @property
    def sqlite(self) -> bool:
        """Whether this is SQLite."""
        return self._engine.dialect.name == "sqlite"

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A read transaction with one consistent view."""
        # By default each PostgreSQL statement sees the newest data, so two queries could contradict each other.
        options: dict[str, Any] = {} if self.sqlite else {"isolation_level": "REPEATABLE READ"}
        with self._told(), self._engine.connect() as connection:
            connection.execution_options(**options)
            with connection.begin():
                yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """The single writer's transaction; others wait up to 10 s. Rolled back on an exception."""
        with self._told(), self._engine.connect() as connection:
            connection.execution_options(flyball_begin="BEGIN IMMEDIATE")
            transaction = connection.begin()
            try:
                if not self.sqlite:
                    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_WRITERS_LOCK})")
                yield connection
            except BaseException:
                transaction.rollback()
                raise
            try:
                transaction.commit()
            except exc.DBAPIError as error:
                raise _told_error(error, self.shown, maybe_kept=True) from error

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except exc.SQLAlchemyError as error:
            raise _told_error(error, self.shown, maybe_kept=False) from error


def _engine(url: str) -> Engine:
    try:
        parsed = sqlalchemy.make_url(url)
    except exc.ArgumentError as error:
        raise _no_such_database(url.partition(":")[0]) from error
    if parsed.drivername == "sqlite":
        engine = sqlalchemy.create_engine(parsed, connect_args={"timeout": WAIT_MS_MAX / 1000})
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    if parsed.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        seconds = WAIT_MS_MAX // 1000
        limits = f"-c lock_timeout={WAIT_MS_MAX} -c statement_timeout={_STATEMENT_MS_MAX}"
        arguments = {"connect_timeout": seconds, "options": limits, "application_name": "flyball"}
        # Pinged before use, so that the first call after a database restart does not use a dead connection.
        driver = parsed.set(drivername="postgresql+psycopg")
        try:
            return sqlalchemy.create_engine(driver, connect_args=arguments, pool_pre_ping=True, pool_timeout=seconds)
        except ImportError as missing:
            raise MissingExtraError(
                f"a registry in PostgreSQL needs psycopg: {missing}", next_step="pip install 'flyball[registry]'"
            ) from missing
    raise _no_such_database(parsed.drivername)


def _no_such_database(found: str) -> RegistryRefusedError:
    return RegistryRefusedError(
        f"the registry's database cannot be {found!r}",
        next_step="write sqlite:///registry.db or postgresql://USER@HOST/NAME",
    )


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # Python would begin transactions late and not for every statement; `_begin_sqlite` does it instead.
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout={WAIT_MS_MAX}")
    _into_wal(connection)
    connection.execute("PRAGMA synchronous=FULL")  # an acknowledged event survives a power loss


def _into_wal(connection: Any) -> None:
    """Switch a new file to WAL. SQLite's timeout does not cover concurrent switches, so retry here."""
    until = time.monotonic() + WAIT_MS_MAX / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.005)


def _begin_sqlite(connection: Connection) -> None:
    # IMMEDIATE takes the writers' lock at once, so that a read before the write cannot become stale.
    connection.exec_driver_sql(connection.get_execution_options().get("flyball_begin", "BEGIN"))


def _told_error(error: exc.SQLAlchemyError, shown: str, *, maybe_kept: bool) -> FlyballError:
    cause = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
    if isinstance(error, exc.IntegrityError):
        return RegistryConflictError(
            f"the registry's database did not take it: {cause}", next_step="look again:  flyball registry history NAME"
        )
    busy = any(words in cause for words in ("database is locked", "lock timeout", "statement timeout"))
    if busy:
        return RegistryUnavailableError(f"the registry {shown} is busy: {cause}", next_step="try again; nothing was changed")
    if isinstance(error, exc.OperationalError | exc.InterfaceError | exc.TimeoutError) or getattr(
        error, "connection_invalidated", False
    ):
        unsure = "it may have been kept: look before you repeat it" if maybe_kept else "nothing was changed; try again"
        unavailable = RegistryUnavailableError(f"the registry {shown} cannot be reached: {cause}", next_step=unsure)
        unavailable.maybe_kept = maybe_kept
        return unavailable
    return RegistryBrokenError(
        f"the registry {shown} is damaged: {cause}", next_step="restore it from a backup, then:  flyball registry verify"
    )
