"""Release statements: where and when a version may serve, signed by its author, countersigned by approvers.

An in-toto statement about packages, which have their own signatures. Approvals are signatures over the same bytes, so that
all approve the same content. `crates/signing` verifies them. Must not know the registry.
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
    """The released version, its environments, window, models and decision."""

    name: str
    version: int
    environments: list[str]
    not_before: str
    not_after: str
    tier: Tier
    author: str
    models: dict[str, str]
    """Digests of models with their external data, by the version that a deployment gives them."""
    decision: str | None
    policy: str | None
    schema_: str | None = Field(alias="schema")


class Subject(Signed):
    """A released package, `NAME@VERSION`, with its root."""

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
    """A verified release: statement, author, and approvers with their keys' hints."""

    statement: Statement
    author: str
    approvers: list[str]
    approver_keys: list[str]


def make_release(predicate: dict[str, Any], subjects: dict[str, str], key: keys.PrivateKey) -> bytes:
    """A release signed by its author. `predicate` lacks `author`; `subjects`: `NAME@VERSION` to root, its own first."""
    stated = {**predicate, "author": keys.hint(key.public_key())}
    listed = [{"name": name, "digest": {"sha256": root.removeprefix("sha256:")}} for name, root in subjects.items()]
    document = {"_type": STATEMENT_TYPE, "subject": listed, "predicateType": PREDICATE_TYPE, "predicate": stated}
    payload = json.dumps(document, indent=2).encode("ascii")
    with boundary():
        native.check_release_statement(payload)
    return dsse.sign(PAYLOAD_TYPE, payload, key).text()


def read_release(data: bytes) -> Statement:
    """Parse a release without verifying signatures, for approvers."""
    with boundary():
        return Statement.model_validate_json(native.release_statement(data))


def check_place(data: bytes, now: int, environment: str) -> None:
    """Refuse a release outside its window or environments; signatures are not verified."""
    with boundary():
        native.check_release_place(data, now, environment)


def approval(data: bytes, key: keys.PrivateKey) -> dsse.Signature:
    """An approver's signature over a release; the key is never sent."""
    return dsse.signature_of(PAYLOAD_TYPE, dsse.read_envelope("release", data).payload, key)


def countersign(data: bytes, key: keys.PrivateKey) -> bytes:
    """The release with one more signature."""
    return attach(data, approval(data, key))


def attach(data: bytes, signature: dsse.Signature) -> bytes:
    """Add a signature to a release; `Trust.release` verifies it with the others."""
    envelope = dsse.read_envelope("release", data)
    if any(known.keyid == signature.keyid for known in envelope.signatures):
        raise UsageError("this key has signed the release already", next_step="another person's key must approve it")
    if len(envelope.signatures) >= dsse.SIGNATURES_MAX:
        raise UsageError(f"a release has {dsse.SIGNATURES_MAX} signatures at most", next_step="make a new release")
    return envelope.with_signature(signature).text()
