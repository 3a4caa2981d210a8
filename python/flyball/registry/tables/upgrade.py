"""Migrates a database's tables, once, by whichever process comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy

from flyball.errors import RegistryRefusedError
from flyball.registry.tables import schema

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from flyball.registry.tables.database import Database


def upgrade(database: Database) -> None:
    """Create or migrate older tables; refuse newer ones."""
    with database.reading() as connection:
        current = _revision(connection)
    if current == schema.REVISION:
        return  # importing Alembic takes longer than everything else here
    if current is not None and current > schema.REVISION:
        raise RegistryRefusedError(
            f"the registry {database.shown} was written by a newer flyball: its tables are {current}, not {schema.REVISION}",
            next_step="install the newer flyball",
        )
    with database.writing() as connection:
        _migrate(connection)


def _revision(connection: Connection) -> str | None:
    if not sqlalchemy.inspect(connection).has_table("alembic_version"):
        return None
    row = connection.exec_driver_sql("SELECT version_num FROM alembic_version").first()
    return None if row is None else str(row[0])


def _migrate(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "flyball.registry.tables:migrations")
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
