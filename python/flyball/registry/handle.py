"""`RegistryHandle`: the open parts of a registry, shared by acts and reads.

These are its events, tables, artifacts and trust policy. Must not know which acts are allowed.
"""

from __future__ import annotations

import base64
import difflib
import re
import threading
import time
from typing import TYPE_CHECKING, Any, Self

from sqlalchemy import delete, insert, select

from flyball.artifacts.packages import fetch_package
from flyball.artifacts.stores import open_store
from flyball.documents.names import is_name
from flyball.errors import NotFoundError, SignatureError, UsageError
from flyball.registry.acts.rules import ApprovalRules
from flyball.registry.events.log import EVENTS_MAX, EventLog
from flyball.registry.events.state import NameState
from flyball.registry.home import Home
from flyball.registry.tables.database import Database
from flyball.registry.tables.nodes import Nodes
from flyball.registry.tables.projections import Projections
from flyball.registry.tables.schema import trust_serial
from flyball.registry.tables.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sqlalchemy import Connection

    from flyball.artifacts.blobs import Store
    from flyball.registry.events.state import Version
    from flyball.registry.packages.deployment import PackageFolder
    from flyball.signing.trust import Trust

_NAMES_MAX = 1000
_LISTED_MAX = 8


class RegistryHandle:
    """Events, tables, artifacts and trust of one registry."""

    def __init__(self, home: Home, database: Database, store: Store) -> None:
        self.home, self.database, self.store = home, database, store
        self.log, self.tables = EventLog(database), Projections(database)
        self.timeline, self.nodes = Timeline(database), Nodes(database, self.log)
        self._states: dict[str, NameState] = {}
        self._lock = threading.Lock()

    @classmethod
    def at(cls, home: Home | Path | str | None = None) -> Self:
        """Open a registry: the given home, else FLYBALL_REGISTRY, else `.flyball/registry`."""
        found = home if isinstance(home, Home) else Home.find(home)
        settings = found.settings
        store = open_store(
            settings.artifacts,
            base=found.folder,
            endpoint=settings.artifacts_endpoint,
            region=settings.artifacts_region,
        )
        return cls(found, Database.open(found.database_url()), store)

    def close(self) -> None:
        """Close the database connections."""
        self.database.close()

    def state(self, name: str) -> NameState:
        """The state of a name after its newest event."""
        with self._lock:
            state = self._states.get(name) or NameState(name)
            while events := self.log.of(name, after_revision=state.revision):
                for event in events:
                    state = state.after(event)
                if len(events) < EVENTS_MAX:
                    break
            if state.versions:
                self._states[name] = state
        return state

    def find(self, ref: str) -> tuple[NameState, Version]:
        """Resolve NAME@NUMBER, NAME@ALIAS or NAME@ENVIRONMENT."""
        name, at, which = ref.partition("@")
        if not at or not which:
            raise UsageError(
                f"{ref!r} does not name a version", next_step=f"write {name or 'NAME'}@NUMBER or {name or 'NAME'}@ALIAS"
            )
        state = self.known(name)
        placement = state.placements.get(which)
        number = int(which) if re.fullmatch(r"[0-9]{1,9}", which) else state.aliases.get(which)
        if placement is not None:
            number = placement.version
        if number is None or number not in state.versions:
            raise NotFoundError(
                f"{name} has no version, alias or placement {which!r}; it has {_named(state)}",
                code="version_not_found",
                next_step=f"flyball registry list {name}",
            )
        return state, state.versions[number]

    def known(self, name: str) -> NameState:
        """The state of a name; raises if it has no versions."""
        state = self.state(name) if is_name(name) else NameState(name)
        if not state.versions:
            known = [one.name for one in self.tables.newest(after="", limit=_NAMES_MAX)]
            close = difflib.get_close_matches(name, known, n=1)
            meant = f"; did you mean {close[0]!r}?" if close else ""
            raise NotFoundError(
                f"the registry has no {name!r}{meant}", code="name_not_found", next_step="flyball registry list"
            )
        return state

    def approval_rules(self) -> ApprovalRules:
        """The order of environments, and the approvals that the trust policy requires per tier.

        They are unknown if the policy is damaged, outdated or expired: reads and rollbacks must not depend on it.
        """
        from flyball.signing.policy import FIRST_APPROVALS

        approvals: Mapping[str, int] | None = FIRST_APPROVALS.model_dump()
        if self.home.trust.is_file():
            trust = self.trust_if_readable()
            approvals = None if trust is None else trust.policy.approvals.model_dump()
        return ApprovalRules(tuple(self.home.settings.environments), approvals)

    def trust(self) -> Trust:
        """The verified trust policy, for an act. Later acts refuse older policies."""
        trust, highest = self._policy()
        if trust.policy.serial > highest:
            with self.database.writing() as connection:
                if _highest_serial(connection) < trust.policy.serial:
                    connection.execute(delete(trust_serial))
                    connection.execute(insert(trust_serial).values(id=1, serial=trust.policy.serial))
        return trust

    def trust_if_readable(self) -> Trust | None:
        """The verified policy for reads and rollbacks; None if absent, damaged, outdated or expired."""
        try:
            return self._policy()[0]
        except (SignatureError, UsageError, OSError):
            return None

    def _policy(self) -> tuple[Trust, int]:
        """The policy, and the highest serial that acts used; changes nothing."""
        from flyball.signing.keys import load_publics
        from flyball.signing.trust import Trust

        if not self.home.trust_root.is_file() or not self.home.trust.is_file():
            raise UsageError(
                f"{self.home.folder} has no trust policy, so no signature is trusted",
                code="no_trust",
                next_step=_no_trust(self.home),
            )
        with self.database.reading() as connection:
            highest = _highest_serial(connection)
        policy, roots = self.home.trust.read_bytes(), load_publics(self.home.trust_root)
        return Trust(policy, roots, int(time.time()), highest), highest

    def folder(self, name: str, version: Version) -> PackageFolder:
        """A version's files on this machine, fetched if missing."""
        from flyball.registry.packages.cache import drop_unused, used
        from flyball.registry.packages.deployment import PACKAGES, PackageFolder

        target = self.home.folder / PACKAGES / version.root.removeprefix("sha256:")
        used(target)
        fetch_package(self.store, version.manifest, target, root=version.root)
        drop_unused(target.parent, {target.name})
        return PackageFolder(name, version.number, version.root, target.absolute())

    def references(self, version: Version) -> dict[str, PackageFolder]:
        """The packages that a version's decision refers to, by NAME@N."""
        found = {}
        for reference in version.references:
            _, other = self.find(f"{reference.name}@{reference.version}")
            found[f"{reference.name}@{reference.version}"] = self.folder(reference.name, other)
        return found

    def statement(self, name: str, version: Version) -> tuple[dict[str, Any], dict[str, str]]:
        """The release predicate without author, environments and window; and its subjects, NAME@N to root, its own first."""
        from flyball.registry.packages.deployment import served

        package, references = self.folder(name, version), self.references(version)
        shown = served(package, references)
        predicate = {"name": name, "version": version.number, "tier": version.tier, "models": shown.models, **shown.named}
        return predicate, {package.ref: package.root, **{ref: other.root for ref, other in references.items()}}

    def release(self, version: Version) -> bytes | None:
        """The release with all approvals; None if the version is not signed."""
        from flyball.signing.dsse import Signature
        from flyball.signing.release import attach

        if version.release is None:
            return None
        envelope = self.store.read(version.release)
        for approval in version.approvals:
            envelope = attach(envelope, Signature(approval.key, base64.b64decode(approval.signature)))
        return envelope


def _highest_serial(connection: Connection) -> int:
    """The highest trust policy serial that an act used: it outlives processes and the policy's own file.

    Without it, whoever can write that file could restore an old policy, and with it revoked keys.
    """
    return connection.execute(select(trust_serial.c.serial)).scalar() or 0


def _no_trust(home: Home) -> str:
    """The next missing step."""
    if not home.trust_root.is_file():
        return f"copy the root's public key there:  flyball key new root.pem && cp root.pub {home.trust_root}"
    return f"make one:  flyball trust init --trust-policy {home.trust}"


def _named(state: NameState) -> str:
    """What a version of the name can be called, newest first: `3, 2, 1, @champion, @dev`."""
    numbers = [str(number) for number in sorted(state.versions, reverse=True)]
    return ", ".join([*numbers[:_LISTED_MAX], *(f"@{one}" for one in [*state.aliases, *state.placements][:_LISTED_MAX])])
