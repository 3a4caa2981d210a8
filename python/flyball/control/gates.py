"""The gates of a promotion: checks before a version is placed, with their evidence.

Every server repeats the firm gates, so breaking the glass cannot skip them. The latency gate is in `latency.py`. Must not
know who promotes or why.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from flyball.control.latency import latency
from flyball.errors import FlyballError, SignatureError
from flyball.models.equivalence.certificate import CERTIFICATE, read_certificate
from flyball.native.models import prove
from flyball.registry.acts.registry import GateInput
from flyball.registry.acts.rules import Gate
from flyball.registry.packages.certified import reach
from flyball.registry.packages.check import scan_package
from flyball.registry.packages.deployment import served
from flyball.registry.packages.meta import META, read_meta

if TYPE_CHECKING:
    from flyball.registry.packages.deployment import PackageFolder, Served
    from flyball.registry.packages.meta import Meta

_WORDS_MAX = 1000


def run_gates(subject: GateInput) -> list[Gate]:
    """Run all gates. Slow ones run only if no firm gate failed before."""
    package = subject.handle.folder(subject.name, subject.version)
    meta = read_meta((package.folder / META).read_bytes())
    shown = served(package, subject.handle.references(subject.version))
    found = [_signatures(subject, package, shown), _scan(package), _validation(meta)]
    if all(gate.passed or not gate.firm for gate in found):
        found.append(_probe(package))
    if (package.folder / CERTIFICATE).is_file():
        found.append(_equivalence(package, shown))
    if meta.contract is not None and all(gate.passed or not gate.firm for gate in found):
        found.append(latency(subject, package, meta.contract))
    return found


def _signatures(subject: GateInput, package: PackageFolder, shown: Served) -> Gate:
    """Repeat the trust checks that a server makes at load."""
    from flyball.signing.trust import Deployed, Package

    opened, version = subject.handle, subject.version
    references = opened.references(version)
    deployed = Deployed(subject.name, subject.environment, shown.models, **shown.named)
    try:
        trust, now = opened.trust(), int(time.time())
        packages = [Package(one.ref, one.folder, _bundle(subject, one.ref)) for one in (package, *references.values())]
        release = trust.admit(deployed, opened.release(version), packages, now)
    except SignatureError as error:
        return Gate("signatures", passed=False, words=error.message, firm=True, evidence={"reason": error.reason})
    approved = f"approved by {' and '.join(release.approvers)}" if release.approvers else "no approval is needed"
    evidence = {
        "serial": trust.policy.serial,
        "not_after": release.statement.predicate.not_after,
        "approvers": release.approvers,
    }
    return Gate("signatures", passed=True, words=f"signed by {release.author}, {approved}", firm=True, evidence=evidence)


def _bundle(subject: GateInput, ref: str) -> bytes | None:
    _, version = subject.handle.find(ref)
    return None if version.bundle is None else subject.handle.store.read(version.bundle)


def _scan(package: PackageFolder) -> Gate:
    """Scan again: the scanner may be newer than at registration."""
    try:
        models = scan_package(package.folder)
    except FlyballError as error:
        return Gate("scan", passed=False, words=error.message, firm=True)
    return Gate("scan", passed=True, words=f"{models} ONNX file{'s' * (models != 1)} within limits", firm=True)


def _probe(package: PackageFolder) -> Gate:
    """Load and probe each model in its own process, with a server's limits."""
    models = sorted(package.folder.rglob("*.onnx"))
    try:
        for path in models:
            prove(path)
    except FlyballError as error:
        return Gate("probe", passed=False, words=error.message[:_WORDS_MAX], firm=True)
    return Gate("probe", passed=True, words=f"{len(models)} model{'s' * (len(models) != 1)} loaded and probed", firm=True)


def _validation(meta: Meta) -> Gate:
    due = meta.card.validation_due
    if due is None:
        return Gate("validation", passed=True, words="its card has no validation date")
    if meta.card.overdue(datetime.now(UTC).date()):
        return Gate("validation", passed=False, words=f"its validation was due on {due}", evidence={"due": due})
    return Gate("validation", passed=True, words=f"validation is due on {due}", evidence={"due": due})


def _equivalence(package: PackageFolder, shown: Served) -> Gate:
    """The certificate's result, if it covers what is served, and what it leaves unproven."""
    try:
        proof = read_certificate(package.folder / CERTIFICATE)
        left = reach(proof, shown)
    except FlyballError as error:
        words = "; ".join(part for part in (error.message, error.next_step) if part)
        return Gate("equivalence", passed=False, words=words[:_WORDS_MAX])
    evidence = {
        "outcome": proof.outcome,
        "candidate": proof.candidate.digest,
        "way": proof.candidate.way,
        "original": proof.original.digest,
    }
    words = proof.words[: _WORDS_MAX - len(left)] + left
    return Gate("equivalence", passed=proof.outcome != "refused", words=words, evidence=evidence)
