"""Where features are kept: a Redis, or the file of an embedded store."""

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
    """Just one of a Redis and a store's file. The address may have a password: it is not shown."""

    redis: str | None = None
    store: Path | None = None

    @classmethod
    def parse(cls, text: str) -> Target:
        """An address or a path, as the command line has it."""
        if text.startswith(_SCHEMES):
            return cls(redis=text)
        if text.startswith("rediss://"):
            raise UsageError("rediss:// needs TLS, which features do not have yet", next_step="use redis:// by a tunnel")
        if "://" not in text and text.endswith(".redb"):
            return cls(store=Path(text))
        shown = text.partition("://")[0] + "://…" if "://" in text else text
        raise UsageError(f"{shown} is no place for features", next_step=_NEXT)

    @classmethod
    def of_environment(cls, name: str) -> Target:
        """The same, from a variable: an address with a password does not belong on a command line."""
        text = os.environ.get(name)
        if not text:
            raise UsageError(f"the environment has no {name}", next_step=f"export {name}=redis://user:password@host:6379")
        return cls.parse(text)

    def options(self, set_name: str) -> dict[str, Any]:
        """As the native side wants it."""
        if self.redis is not None:
            return {"set": set_name, "redis": self.redis}
        return {"set": set_name, "store": str(self.store)}

    def __str__(self) -> str:
        if self.redis is None:
            return str(self.store)
        scheme, _, rest = self.redis.partition("://")
        # A socket's address may have a password behind the question mark.
        return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}"


def get(target: Target, set_name: str, key: str) -> dict[str, Any] | None:
    """One record: {"v", "at", "fields"}; none: no such key."""
    record = features.feature_record(target.options(set_name), key)
    if record is None:
        return None
    try:
        return dict(json.loads(record))
    except (TypeError, ValueError) as error:
        raise RefusedError(
            f"what {set_name} has under {key!r} is no record: {error}",
            next_step="push it again:  flyball features push FILE",
        ) from error
