"""The newest trust policy that an act was judged by, as its serial: it outlives processes and the policy's own file.

Whoever can write that file could else put an old policy back, and with it keys that were revoked. Must not know policies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, insert, select

from flyball.registry.tables.schema import trust_serial

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from flyball.registry.tables.database import Database

_ROW = 1


class TrustSerial:
    """The one number."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def highest(self) -> int:
        """0 where no policy was taken yet."""
        with self._database.reading() as connection:
            return _highest(connection)

    def take(self, serial: int) -> None:
        """Remember this one, unless a higher one was taken meanwhile."""
        with self._database.writing() as connection:
            if _highest(connection) < serial:
                connection.execute(delete(trust_serial))
                connection.execute(insert(trust_serial).values(id=_ROW, serial=serial))


def _highest(connection: Connection) -> int:
    return connection.execute(select(trust_serial.c.serial)).scalar() or 0
