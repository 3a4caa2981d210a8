"""Authenticates and authorizes admin requests: an API key for every request, a role for every act.

Refusals are events with caller and reason; all unknown callers count as one. Must not know what the acts do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flyball.errors import ForbiddenError, UnauthenticatedError
from flyball.registry.acts.api_keys import owner_of
from flyball.registry.acts.interface import READS, ROLES_OF, Actor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flyball.control.admin.lazy_registry import LazyRegistry
    from flyball.errors import FlyballError
    from flyball.registry.local import LocalRegistry

_STRANGER = Actor("unknown caller", frozenset())


class Gatekeeper:
    """Authenticates and authorizes callers."""

    def __init__(self, registry: LocalRegistry | LazyRegistry) -> None:
        self._registry = registry

    def known(self, authorization: str | None, act: str, name: str = "") -> Actor:
        """Authenticate a request."""
        scheme, _, presented = (authorization or "").partition(" ")
        key = owner_of(presented.strip(), self._registry.keys()) if scheme.lower() == "bearer" and presented else None
        if key is None:
            raise self._strange(authorization, act, name)
        return key.actor()

    def check(self, actor: Actor, act: str, name: str = "") -> None:
        """Refuse an act that the actor's roles do not allow."""
        wanted = ROLES_OF[act]
        if not actor.roles & wanted:
            error = ForbiddenError(
                f"{actor.name} may not {act}: that needs the role {_either(wanted)}, and the key has {_either(actor.roles)}",
                next_step=f"on the registry's machine:  flyball registry key add NAME --role {min(wanted)}",
            )
            self.keep(error, actor, act, name)
            raise error

    def keep(self, error: FlyballError, actor: Actor, act: str, name: str = "") -> None:
        """Record the refusal of an authenticated caller."""
        self._registry.refused(act, name, error, actor)

    def _strange(self, authorization: str | None, act: str, name: str) -> UnauthenticatedError:
        words = "the API key is unknown or was removed" if authorization else "the request has no API key"
        error = UnauthenticatedError(
            words, next_step="send it as Authorization: Bearer KEY; the command line takes it from FLYBALL_REGISTRY_KEY"
        )
        if act not in READS:
            self._registry.refused(act, name, error, _STRANGER)
        return error


def _either(roles: Iterable[str]) -> str:
    return " or ".join(sorted(roles)) or "none"
