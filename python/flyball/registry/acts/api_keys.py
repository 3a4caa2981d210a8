"""API keys of the admin API: what is kept of them, and whose a presented key is.

A key is 32 random bytes, so its SHA-256 is enough: there is nothing to guess, and a slow hash would protect nothing. It is
shown once, when it is made. Must not know HTTP, nor where the keys are stored.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flyball.documents.config.callers import new_key
from flyball.registry.acts.interface import ROLES, Actor

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

__all__ = ["KEYS_MAX", "KEY_CHARACTERS_MAX", "ApiKey", "new_key", "owner_of"]

KEYS_MAX = 1000
KEY_CHARACTERS_MAX = 128


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One key: whose, what it allows, and the hash by which it is known."""

    name: str
    roles: frozenset[str]
    sha256: str
    added_at: datetime
    added_by: str

    def actor(self) -> Actor:
        """Who acts by this key. Roles that this build does not know allow nothing."""
        return Actor(self.name, self.roles & frozenset(ROLES), "api-key")


def owner_of(presented: str, keys: Iterable[ApiKey]) -> ApiKey | None:
    """The key that was presented, if it is one of these. Every key is compared, so that the time tells nothing."""
    if len(presented) > KEY_CHARACTERS_MAX:
        return None
    hashed = hashlib.sha256(presented.encode("utf-8", "surrogateescape")).hexdigest()
    found = None
    for key in keys:
        if hmac.compare_digest(key.sha256, hashed):
            found = key
    return found
