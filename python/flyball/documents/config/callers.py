"""`CallersFile`: a server's callers, their credentials, rights and limits.

`crates/server` validates the file. Only SHA-256 hashes of keys are stored: a key is 32 random bytes, so nothing can be
guessed and a slow hash would protect nothing. Must not know how the file reaches the server.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shlex
import tempfile
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from flyball.documents.config.server import refuse_faults
from flyball.errors import ConfigRefusedError

ANONYMOUS = "anonymous"


class Caller(BaseModel):
    """One caller: identified by its keys, certificate names or Unix users; `may` lists all its rights.

    `anonymous` stands for unknown callers and has no credentials.
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
    """The whole file. Names, keys, certificate names and users are unique."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    callers: list[Caller]


def new_key() -> tuple[str, str]:
    """A new API key, and its SHA-256."""
    key = "fb_" + secrets.token_urlsafe(32)
    return key, hashlib.sha256(key.encode()).hexdigest()


def read_callers(path: Path) -> CallersFile:
    """Read the file; reports all faults at once."""
    try:
        return _checked(path.read_bytes(), path)
    except FileNotFoundError as error:
        raise ConfigRefusedError(
            f"cannot read the callers' file {path}: no such file",
            next_step=f"make it:  flyball caller add NAME --may infer --callers {shlex.quote(str(path))}",
        ) from error
    except OSError as error:
        raise ConfigRefusedError(f"cannot read the callers' file {path}: {error.strerror}") from error


def checked(document: Any, path: Path) -> CallersFile:
    """Validate a document; raises with all faults."""
    return _checked(json.dumps(document).encode(), path)


def _checked(data: bytes, path: Path) -> CallersFile:
    refuse_faults("callers", data, f"the callers' file {path}", "see docs/guides/secure-a-server.md for every key")
    return CallersFile.model_validate_json(data)


def write_callers(path: Path, callers: CallersFile) -> None:
    """Replace the file atomically, so that a server never reads half of it; a new file has mode 0600."""
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
