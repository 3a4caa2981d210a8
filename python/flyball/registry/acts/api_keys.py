"""API keys of the admin API: their stored form, and the lookup of a presented key.

A key is 32 random bytes, so its SHA-256 is enough: nothing can be guessed, and a slow hash would protect nothing. It is
shown once, at its creation. Must not know HTTP, nor where the keys are stored.
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
    """One key: owner, roles and hash."""

    name: str
    roles: frozenset[str]
    sha256: str
    added_at: datetime
    added_by: str

    def actor(self) -> Actor:
        """The actor of this key. Roles unknown to this build are dropped."""
        return Actor(self.name, self.roles & frozenset(ROLES), "api-key")


def owner_of(presented: str, keys: Iterable[ApiKey]) -> ApiKey | None:
    """The presented key among these, or None. Compares every key, so that timing reveals nothing."""
    if len(presented) > KEY_CHARACTERS_MAX:
        return None
    hashed = hashlib.sha256(presented.encode("utf-8", "surrogateescape")).hexdigest()
    found = None
    for key in keys:
        if hmac.compare_digest(key.sha256, hashed):
            found = key
    return found
