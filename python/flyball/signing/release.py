"""Release statements: which version may serve where and when, signed by its author, countersigned by those who approve.

An in-toto statement about packages that are signed on their own. Approvals are signatures over the very same bytes, so
nobody approves what another did not see. `crates/signing` verifies them. Must not know the registry.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from flyball.errors import UsageError
from flyball.native.boundary import boundary, native
from flyball.signing import dsse, keys
from flyball.signing.policy import Signed, Tier

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://flyball/release/v1"


class Predicate(Signed):
    """What is released: which version, where, from when to when, and with which decision."""

    name: str
    version: int
    environments: list[str]
    not_before: str
    not_after: str
    tier: Tier
    author: str
    models: dict[str, str]
    """By the versions that a deployment gives them: which file, with its external data, answers as which."""
    decision: str | None
    policy: str | None
    schema_: str | None = Field(alias="schema")


class Subject(Signed):
    """A package that the release is about, `NAME@VERSION`, and its root."""

    name: str
    digest: dict[str, str]


class Statement(Signed):
    """The in-toto statement of a release; its first subject is the version itself."""

    type_: str = Field(alias="_type")
    subject: list[Subject]
    predicate_type: str = Field(alias="predicateType")
    predicate: Predicate

    @property
    def subjects(self) -> dict[str, str]:
        """The roots of the packages, by `NAME@VERSION`."""
        return {one.name: f"sha256:{one.digest['sha256']}" for one in self.subject}


@dataclass(frozen=True)
class Release:
    """A release that holds: what it says, its author's name, and who approved it, with their keys' hints."""

    statement: Statement
    author: str
    approvers: list[str]
    approver_keys: list[str]


def make_release(predicate: dict[str, Any], subjects: dict[str, str], key: keys.PrivateKey) -> bytes:
    """The release, signed by its author. `predicate` without `author`; `subjects`: `NAME@VERSION` to root, its own first."""
    stated = {**predicate, "author": keys.hint(key.public_key())}
    listed = [{"name": name, "digest": {"sha256": root.removeprefix("sha256:")}} for name, root in subjects.items()]
    document = {"_type": STATEMENT_TYPE, "subject": listed, "predicateType": PREDICATE_TYPE, "predicate": stated}
    payload = json.dumps(document, indent=2).encode("ascii")
    with boundary():
        native.check_release_statement(payload)
    return dsse.sign(PAYLOAD_TYPE, payload, key).text()


def read_release(data: bytes) -> Statement:
    """What a release says, whoever signed it: for those who are asked to approve it."""
    with boundary():
        return Statement.model_validate_json(native.release_statement(data))


def check_place(data: bytes, now: int, environment: str) -> None:
    """Refuse a release that does not hold now, or not there, whoever signed it."""
    with boundary():
        native.check_release_place(data, now, environment)


def approval(data: bytes, key: keys.PrivateKey) -> dsse.Signature:
    """An approver's signature over a release; only this travels, never the key."""
    return dsse.signature_of(PAYLOAD_TYPE, dsse.read_envelope("release", data).payload, key)


def countersign(data: bytes, key: keys.PrivateKey) -> bytes:
    """The release with one more signature over the same bytes."""
    return attach(data, approval(data, key))


def attach(data: bytes, signature: dsse.Signature) -> bytes:
    """The release with a signature that was made elsewhere; it is verified with the others, by `Trust.release`."""
    envelope = dsse.read_envelope("release", data)
    if any(known.keyid == signature.keyid for known in envelope.signatures):
        raise UsageError("this key has signed the release already", next_step="another person's key must approve it")
    if len(envelope.signatures) >= dsse.SIGNATURES_MAX:
        raise UsageError(f"a release has {dsse.SIGNATURES_MAX} signatures at most", next_step="make a new release")
    return envelope.with_signature(signature).text()
