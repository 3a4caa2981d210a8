"""Release statements: which version may serve where and when, signed by its author, countersigned by those who approve.

An in-toto statement about packages that are signed on their own. Approvals are signatures over the very same bytes, so
nobody approves what another did not see. Must not know the registry: who asked for what stands there.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from flyball.errors import UsageError
from flyball.signing import dsse, keys
from flyball.signing.policy import Digest, Hint, Name, Number, Signed, Tier, Time, TrustedKey, validated
from flyball.signing.reasons import Reason, refused
from flyball.signing.strict import constant, read_object, seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flyball.signing.trust import Trust

RELEASE_BYTES_MAX = 256 * 1024
SUBJECTS_MAX = 16
ENVIRONMENTS_MAX = 16
MODELS_MAX = 16
PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://flyball/release/v1"
_RELEASE = "the release"
_SUBJECT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}@[1-9][0-9]{0,9}")

ModelVersion = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,8}$")]


class Predicate(Signed):
    """What is released: which version, where, from when to when, and with which decision."""

    name: Name
    version: Number
    environments: Annotated[list[Name], Field(min_length=1, max_length=ENVIRONMENTS_MAX)]
    not_before: Time
    not_after: Time
    tier: Tier
    author: Hint
    models: Annotated[dict[ModelVersion, Digest], Field(max_length=MODELS_MAX)]
    """By the versions that a deployment gives them: which file, with its external data, answers as which."""
    decision: Digest | None
    policy: Digest | None
    schema_: Digest | None = Field(alias="schema")

    @model_validator(mode="after")
    def _ends_after_it_begins(self) -> Self:
        if seconds(self.not_after) <= seconds(self.not_before):
            raise ValueError("not_after must be after not_before")
        if not self.models and self.decision is None:
            raise ValueError("without a model there must be a decision")
        return self


class SubjectDigest(Signed):
    """The root of a package."""

    sha256: Hint


class Subject(Signed):
    """A package that the release is about, `NAME@VERSION`."""

    name: str
    digest: SubjectDigest


class Statement(Signed):
    """The in-toto statement of a release; its first subject is the version itself."""

    type_: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    subject: Annotated[list[Subject], Field(min_length=1, max_length=SUBJECTS_MAX)]
    predicate_type: Literal["https://flyball/release/v1"] = Field(alias="predicateType")
    predicate: Predicate


@dataclass(frozen=True)
class Release:
    """A release that holds now and here: its statement, its author, and who approved it."""

    statement: Predicate
    subjects: dict[str, str]
    author: str
    approvals: list[TrustedKey]
    """The keys whose approval counts, one for each person."""

    @property
    def approvers(self) -> list[str]:
        """The names of who approved."""
        return [key.name for key in self.approvals]

    def check_name(self, name: str) -> None:
        """Refuse a release of something else."""
        if self.statement.name != name:
            raise refused(Reason.WRONG_NAME, f"the release is of {self.statement.name}, not of {name}")

    def check_package(self, package: str, root: str) -> None:
        """Refuse a package (`NAME@VERSION`) that the release does not name with this root."""
        if self.subjects.get(package) != root:
            raise refused(Reason.WRONG_SUBJECT, f"the release does not name the package {package}, {root[:19]}…")

    def check_models(self, found: Mapping[str, str]) -> None:
        """Refuse models, by version, that are not just those that were released: a package may hold others."""
        for version in (*self.statement.models, *found):
            if self.statement.models.get(version) != found.get(version):
                raise refused(Reason.WRONG_DIGEST, f"the model {version} is not the one that was released")

    def check_digests(self, **found: str | None) -> None:
        """Refuse a decision, policy or schema that was not released."""
        for part, digest in found.items():
            released = self.statement.schema_ if part == "schema" else getattr(self.statement, part)
            if released != digest:
                raise refused(Reason.WRONG_DIGEST, f"the {part} is not the one that was released")


def make_release(predicate: dict[str, Any], subjects: dict[str, str], key: keys.PrivateKey) -> bytes:
    """The release, signed by its author. `predicate` without `author`; `subjects`: `NAME@VERSION` to root, its own first."""
    stated = {**predicate, "author": keys.hint(key.public_key())}
    listed = [{"name": name, "digest": {"sha256": root.removeprefix("sha256:")}} for name, root in subjects.items()]
    document = {"_type": STATEMENT_TYPE, "subject": listed, "predicateType": PREDICATE_TYPE, "predicate": stated}
    _statement(document)
    payload = json.dumps(document, indent=2).encode("ascii")
    return dsse.sign(PAYLOAD_TYPE, payload, key).text()


def read_release(data: bytes) -> Statement:
    """What a release says, judged by nobody: for those who are asked to approve it."""
    return _statement(read_object(_envelope(data).payload, _RELEASE, RELEASE_BYTES_MAX))


def approval(data: bytes, key: keys.PrivateKey) -> dsse.Signature:
    """An approver's signature over a release; only this travels, never the key."""
    return dsse.signature_of(PAYLOAD_TYPE, _envelope(data).payload, key)


def countersign(data: bytes, key: keys.PrivateKey) -> bytes:
    """The release with one more signature over the same bytes."""
    return attach(data, approval(data, key))


def attach(data: bytes, signature: dsse.Signature) -> bytes:
    """The release with a signature that was made elsewhere; it is judged with the others, by `check_release`."""
    envelope = _envelope(data)
    if any(known.keyid == signature.keyid for known in envelope.signatures):
        raise UsageError("this key has signed the release already", next_step="another person's key must approve it")
    if len(envelope.signatures) >= dsse.SIGNATURES_MAX:
        raise UsageError(f"a release has {dsse.SIGNATURES_MAX} signatures at most", next_step="make a new release")
    return envelope.with_signature(signature).text()


def check_release(data: bytes | None, trust: Trust, now: int, environment: str) -> Release:
    """The release, where it is signed and approved as the trust policy asks and holds now in this environment."""
    if data is None:
        raise refused(Reason.UNSIGNED, "there is no release", "flyball sign NAME@VERSION --key FILE")
    envelope = _envelope(data)
    signers = trust.signers(envelope, now, _RELEASE)
    statement = _statement(read_object(envelope.payload, _RELEASE, RELEASE_BYTES_MAX))
    stated = statement.predicate
    author = signers[0]
    if author.hint != stated.author or "signer" not in author.roles:
        words = f"the first signature is of {author.name}, who is not its author or may not sign releases"
        raise refused(Reason.WRONG_ROLE, words, "let a key with the role signer make the release")
    check_place(stated, now, environment)
    subjects = {one.name: f"sha256:{one.digest.sha256}" for one in statement.subject}
    for root in subjects.values():
        trust.check_package(root)
    minimum = trust.policy.minimum.get(stated.name.lower(), 0)
    if stated.version < minimum:
        raise refused(Reason.BELOW_MINIMUM, f"{stated.name}@{stated.version} is older than the oldest allowed, {minimum}")
    approvals = _approvals(signers)
    needed = getattr(trust.policy.approvals, stated.tier)
    if len(approvals) < needed:
        words = f"{len(approvals)} of {needed} people other than {author.name} approved {stated.name}@{stated.version}"
        raise refused(Reason.APPROVALS_MISSING, words, f"flyball approve {stated.name}@{stated.version}")
    return Release(stated, subjects, author.name, approvals)


def _envelope(data: bytes) -> dsse.Envelope:
    return dsse.read_envelope(data, PAYLOAD_TYPE, _RELEASE, RELEASE_BYTES_MAX)


def _statement(document: dict[str, Any]) -> Statement:
    constant(document, "_type", STATEMENT_TYPE, _RELEASE)
    constant(document, "predicateType", PREDICATE_TYPE, _RELEASE)
    listed = document.get("subject")
    if isinstance(listed, list) and len(listed) > SUBJECTS_MAX:
        raise refused(Reason.TOO_LARGE, f"{_RELEASE} has {len(listed)} subjects, and {SUBJECTS_MAX} are allowed")
    statement = validated(Statement, document, _RELEASE)
    names = [one.name for one in statement.subject]
    if any(not _SUBJECT.fullmatch(name) for name in names):
        raise refused(Reason.MALFORMED, f"{_RELEASE} has a subject that is not NAME@VERSION")
    if len(set(names)) != len(names):
        raise refused(Reason.DUPLICATE_NAME, f"{_RELEASE} names a subject twice")
    if names[0] != f"{statement.predicate.name}@{statement.predicate.version}":
        raise refused(Reason.WRONG_SUBJECT, f"{_RELEASE} is of {statement.predicate.name}, and its subject is {names[0]}")
    return statement


def check_place(stated: Predicate, now: int, environment: str) -> None:
    """Refuse where it does not hold now, or not there, whoever signed it."""
    if now < seconds(stated.not_before):
        raise refused(Reason.NOT_YET_VALID, f"the release holds from {stated.not_before}")
    if now >= seconds(stated.not_after):
        raise refused(Reason.EXPIRED, f"the release ended on {stated.not_after}", "make a new release")
    if environment not in stated.environments:
        words = f"the release is for {', '.join(stated.environments)}, not for {environment}"
        raise refused(Reason.WRONG_ENVIRONMENT, words)


def _approvals(signers: list[TrustedKey]) -> list[TrustedKey]:
    """The keys of those who approved: each person once, however many keys they have, and never the author."""
    people = {signers[0].person: signers[0]}
    for key in signers[1:]:
        if "approver" in key.roles:
            people.setdefault(key.person, key)
    return list(people.values())[1:]
