"""`CallersFile`: who may call a server, by what they are known, and how much they may ask.

The Rust reader has the same keys and limits. Keys are kept as SHA-256 only: a key is 32 random bytes, so there is nothing
to guess and a slow hash would protect nothing. Must not know how the file reaches the server.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import tempfile
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from flyball.documents.faults import Allowed, faults_of
from flyball.errors import ConfigRefusedError

CALLERS_MAX = 256
_MOST = 1_000_000
_NUMBER = Allowed(f"a whole number, 1 to {_MOST}")


ANONYMOUS = "anonymous"
_NAMED_VERBS = ("infer", "decide", "outcome", "override", "control")
_PLAIN_VERBS = ("erase", "metrics")
_RIGHT = (
    rf"^(?:{'|'.join(_NAMED_VERBS + _PLAIN_VERBS)}|"
    rf"(?:{'|'.join(_NAMED_VERBS)}):(?:\*|[A-Za-z0-9_-][A-Za-z0-9._-]{{0,127}}\*?))$"
)


def _not_reserved(name: str) -> str:
    if name == "none":
        raise ValueError("reserved")
    return name


def _refuse(allowed: str) -> PydanticCustomError:
    return PydanticCustomError("not_allowed", "{allowed}", {"allowed": allowed})


_Name = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9._-]{1,64}$"),
    AfterValidator(_not_reserved),
    Allowed("1 to 64 of A-Z a-z 0-9 . _ -, and not none"),
]
_Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$"), Allowed("64 lower-case hex digits, the SHA-256 of a key")]
_San = Annotated[str, Field(pattern=r"^[!-~]{1,255}$"), Allowed("a name of a certificate, up to 255 visible characters")]
_User = Annotated[int, Field(ge=0, lt=2**32 - 1), Allowed("a user's number, 0 to 4294967294")]
Right = Annotated[
    str,
    Field(pattern=_RIGHT),
    Allowed(
        "VERB, VERB:NAME or VERB:PREFIX*, where VERB is infer, decide, outcome, override or control; or erase or metrics, "
        "which take no name"
    ),
]
_Number = Annotated[int | None, Field(ge=1, le=_MOST), _NUMBER]


class Caller(BaseModel):
    """One caller: known by any of its keys, certificate names or Unix users. It may do what `may` says, and nothing else.

    `anonymous` stands for those who are not known, and has none of these marks.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    name: _Name
    keys_sha256: Annotated[list[_Hash], Field(max_length=16)] = []
    sans: Annotated[list[_San], Field(max_length=64)] = []
    uids: Annotated[list[_User], Field(max_length=64)] = []
    requests_per_second: _Number = None
    burst: _Number = None
    in_flight_max: _Number = None
    may: Annotated[list[Right], Field(max_length=64)] = []

    @field_validator("burst")
    @classmethod
    def _beside_a_rate(cls, burst: int | None, info: ValidationInfo) -> int | None:
        if burst is not None and info.data.get("requests_per_second") is None:
            raise _refuse("only beside requests_per_second")
        return burst

    @model_validator(mode="after")
    def _known_by_something(self) -> Caller:
        marks = bool(self.keys_sha256 or self.sans or self.uids)
        if marks == (self.name == ANONYMOUS):
            raise _refuse(f"{'none' if marks else 'at least one'} of keys_sha256, sans and uids")
        return self


class CallersFile(BaseModel):
    """The whole file. Each name, key, certificate name and user leads to one caller."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    callers: Annotated[list[Caller], Field(max_length=CALLERS_MAX, description=f"a list of up to {CALLERS_MAX} callers")]

    @field_validator("callers")
    @classmethod
    def _once(cls, callers: list[Caller]) -> list[Caller]:
        marks: Counter[tuple[str, Any]] = Counter()
        for caller in callers:
            marks[("name", caller.name)] += 1
            for key in ("keys_sha256", "sans", "uids"):
                marks.update((key, mark) for mark in getattr(caller, key))
        if twice := [mark for mark, count in marks.items() if count > 1]:
            raise _refuse(f"each {twice[0][0]} once; {twice[0][1]} is there twice")
        return callers


def new_key() -> tuple[str, str]:
    """A fresh API key and what is kept of it."""
    key = "fb_" + secrets.token_urlsafe(32)
    return key, hashlib.sha256(key.encode()).hexdigest()


def read_callers(path: Path) -> CallersFile:
    """Read the file; every fault is told at once."""
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigRefusedError(f"cannot read the callers' file {path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigRefusedError(f"the callers' file {path} is not JSON: {error}") from error
    return checked(document, path)


def checked(document: Any, path: Path) -> CallersFile:
    """A document that follows every rule, or all of its faults."""
    try:
        return CallersFile.model_validate(document)
    except ValidationError as error:
        faults = faults_of(error, CallersFile)
        raise ConfigRefusedError(
            f"the callers' file {path} has {len(faults)} fault{'s' * (len(faults) != 1)}",
            faults=faults,
            next_step="see docs/guides/secure-a-server.md for every key",
        ) from error


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
