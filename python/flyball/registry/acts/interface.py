"""Actors, their roles, and the type of any registry: local, or behind HTTP with the same methods.

Private keys never reach a registry: signers fetch the files or the release, sign on their own machine and send the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from flyball.registry.local import LocalRegistry
    from flyball.registry.remote.registry import RemoteRegistry

    Acting: TypeAlias = LocalRegistry | RemoteRegistry

READER, DEPLOYER, APPROVER, AUDITOR = "reader", "deployer", "approver", "auditor"
ROLES = (READER, DEPLOYER, APPROVER, AUDITOR)

_ANYONE = frozenset(ROLES)
# Each act needs one of these roles. `rules.py` checks it, and the admin API before it reads a body.
ROLES_OF: dict[str, frozenset[str]] = {
    "read": _ANYONE,
    "events": frozenset({AUDITOR}),
    "verify": frozenset({AUDITOR}),
    "register": frozenset({DEPLOYER}),
    "import": frozenset({DEPLOYER}),
    "sign": frozenset({DEPLOYER}),
    "approve": frozenset({APPROVER}),
    "reject": frozenset({APPROVER}),
    "promote": frozenset({DEPLOYER}),
    "rollback": frozenset({DEPLOYER}),
    "alias": frozenset({DEPLOYER}),
    "revoke": frozenset({DEPLOYER, APPROVER}),
    "retire": frozenset({DEPLOYER}),
    "forget": frozenset({DEPLOYER}),
}
READS = frozenset({"read", "events", "verify"})


Authenticated = Literal["key", "api-key", "os-user", "server", "none"]
"""How an actor's name was established. `key`: the signing key's owner in the trust policy; `server`: by a server itself."""


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts, and with which roles. Over HTTP both come from the API key alone."""

    name: str
    roles: frozenset[str] = frozenset(ROLES)
    authenticated: Authenticated = "none"


@dataclass(frozen=True, slots=True)
class Candidate:
    """The traffic of a candidate: a share of the requests, or a copy of each."""

    share: float = 0.0
    shadow: bool = False
