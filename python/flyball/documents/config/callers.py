"""`CallersFile`: who may call a server, by what they are known, and how much they may ask.

What the file may say is checked by `crates/server`. Keys are kept as SHA-256 only: a key is 32 random bytes, so there is
nothing to guess and a slow hash would protect nothing. Must not know how the file reaches the server.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import tempfile
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from flyball.documents.config.server import refuse_faults
from flyball.errors import ConfigRefusedError

ANONYMOUS = "anonymous"


class Caller(BaseModel):
    """One caller: known by any of its keys, certificate names or Unix users. It may do what `may` says, and nothing else.

    `anonymous` stands for those who are not known, and has none of these marks.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    name: str
    keys_sha256: list[str] = []
    sans: list[str] = []
    uids: list[int] = []
    requests_per_second: int | None = None
    burst: int | None = None
    in_flight_max: int | None = None
    may: list[str] = []


class CallersFile(BaseModel):
    """The whole file. Each name, key, certificate name and user leads to one caller."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    callers: list[Caller]


def new_key() -> tuple[str, str]:
    """A fresh API key and what is kept of it."""
    key = "fb_" + secrets.token_urlsafe(32)
    return key, hashlib.sha256(key.encode()).hexdigest()


def read_callers(path: Path) -> CallersFile:
    """Read the file; every fault is told at once."""
    try:
        return _checked(path.read_bytes(), path)
    except OSError as error:
        raise ConfigRefusedError(f"cannot read the callers' file {path}: {error.strerror}") from error


def checked(document: Any, path: Path) -> CallersFile:
    """A document that follows every rule, or all of its faults."""
    return _checked(json.dumps(document).encode(), path)


def _checked(data: bytes, path: Path) -> CallersFile:
    refuse_faults("callers", data, f"the callers' file {path}", "see docs/guides/secure-a-server.md for every key")
    return CallersFile.model_validate_json(data)


def write_callers(path: Path, callers: CallersFile) -> None:
    """Replace the file in one step, so that a server never reads half of it; a new one is its owner's alone."""
    document = {"callers": [caller.model_dump(exclude_defaults=True) for caller in callers.callers]}
    mode = 0o600
    with contextlib.suppress(FileNotFoundError):
        mode = path.stat().st_mode & 0o777
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            file.write(json.dumps(document, indent=2) + "\n")
            file.flush()
            os.fchmod(file.fileno(), mode)
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
