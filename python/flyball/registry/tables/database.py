"""The registry's database, SQLite or PostgreSQL: connections, one writer at a time, and what its errors mean.

Everything in `writing` is kept whole or not at all. Must not know events.
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
"""How long a writer waits for another one, and how long a connection may take to come."""
_STATEMENT_MS_MAX = 120_000
_WRITERS_LOCK = 0x666C7962616C6C  # any number that nobody else takes in this database


class Database:
    """Connections to one database, whose tables are there and up to date."""

    def __init__(self, engine: Engine, shown: str) -> None:
        self._engine, self.shown = engine, shown

    @classmethod
    def open(cls, url: str) -> Database:
        """Connect, and bring the tables up to date. `sqlite:///PATH` or `postgresql://…`."""
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
        """Whether this is SQLite, where one file is all."""
        return self._engine.dialect.name == "sqlite"

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One consistent view for everything that is asked inside."""
        # PostgreSQL shows each statement the newest by default, and two questions could get answers that do not fit.
        options: dict[str, Any] = {} if self.sqlite else {"isolation_level": "REPEATABLE READ"}
        with self._told(), self._engine.connect() as connection:
            connection.execution_options(**options)
            with connection.begin():
                yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """The one writer: others wait, 10 s at most. Committed at the end, undone where something is raised."""
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
        """Give every connection back."""
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
        # Pinged before use: the first call after a restart of the database finds a new connection, not a dead one.
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
    # Python would begin transactions by itself, late and not for every statement; `_begin_sqlite` does instead.
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout={WAIT_MS_MAX}")
    _into_wal(connection)
    connection.execute("PRAGMA synchronous=FULL")  # an event that was acknowledged outlives a loss of power


def _into_wal(connection: Any) -> None:
    """Once for a new file; SQLite does not wait for others who do the same, whatever its timeout says."""
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
    # IMMEDIATE takes the writers' lock at once: who reads first and writes later could find that the two do not fit.
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
