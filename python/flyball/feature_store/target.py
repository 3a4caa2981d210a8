"""The location of features: a Redis, or the file of an embedded store."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flyball.errors import RefusedError, UsageError
from flyball.native import features

_SCHEMES = ("redis://", "redis+unix://", "unix://", "valkey://")
_NEXT = "name redis://HOST:PORT, or a file that ends with .redb"


@dataclass(frozen=True, slots=True)
class Target:
    """Exactly one of a Redis address and a store's file. The address may contain a password: it is not printed."""

    redis: str | None = None
    store: Path | None = None

    @classmethod
    def parse(cls, text: str) -> Target:
        """Parse an address or a path."""
        if text.startswith(_SCHEMES):
            return cls(redis=text)
        if text.startswith("rediss://"):
            raise UsageError("rediss:// is not supported: features have no TLS", next_step="use redis:// through a tunnel")
        if "://" not in text and text.endswith(".redb"):
            return cls(store=Path(text))
        shown = text.partition("://")[0] + "://…" if "://" in text else text
        raise UsageError(f"{shown} is not a feature store", next_step=_NEXT)

    @classmethod
    def of_environment(cls, name: str) -> Target:
        """Parse an environment variable: an address with a password does not belong on a command line."""
        text = os.environ.get(name)
        if not text:
            raise UsageError(
                f"environment variable {name} is not set", next_step=f"export {name}=redis://user:password@host:6379"
            )
        return cls.parse(text)

    def options(self, set_name: str) -> dict[str, Any]:
        """Options for the native side."""
        if self.redis is not None:
            return {"set": set_name, "redis": self.redis}
        return {"set": set_name, "store": str(self.store)}

    def __str__(self) -> str:
        if self.redis is None:
            return str(self.store)
        scheme, _, rest = self.redis.partition("://")
        # A socket's address may have a password after the question mark.
        return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}"


def get(target: Target, set_name: str, key: str) -> dict[str, Any] | None:
    """One record: {"v", "at", "fields"}, or None."""
    record = features.feature_record(target.options(set_name), key)
    if record is None:
        return None
    try:
        return dict(json.loads(record))
    except (TypeError, ValueError) as error:
        raise RefusedError(
            f"{set_name}, key {key!r}: not a valid record: {error}",
            next_step="push it again:  flyball features push FILE",
        ) from error
