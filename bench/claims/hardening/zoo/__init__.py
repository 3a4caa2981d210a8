"""Hostile models: each tries to bring a server down when it is loaded or run.

All of them take `n`, an INT64 of shape [1, 1], which most multiply. With n of 0 or 1, as a probe makes it up, most are
harmless. Must not know what becomes of them.
"""

from __future__ import annotations

from bench.claims.hardening.zoo import growth, running, shape
from bench.claims.hardening.zoo.build import Hostile

__all__ = ["Hostile", "all_hostile"]


def all_hostile() -> list[Hostile]:
    """Fifty; those that act when they are loaded come last."""
    every = [*growth.MODELS, *running.MODELS, *shape.MODELS]
    return sorted(every, key=lambda hostile: hostile.at_load)
