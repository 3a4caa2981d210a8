"""`Registry`: every act on a local registry, decided by `rules`, stored as one event, answered with a receipt.

Refused acts are events too. Of two concurrent acts on one name one succeeds, and the other fails with a conflict that names
the first. Must not know HTTP, the command line or how gates check.
"""

from __future__ import annotations

import base64
import binascii
import json
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from flyball.documents.names import NAME_WORDS, is_name
from flyball.errors import (
    FlyballError,
    ForbiddenError,
    GateRefusedError,
    RegistryConflictError,
    RegistryRefusedError,
    UnavailableError,
)
from flyball.registry.acts import rules
from flyball.registry.acts.interface import ROLES_OF
from flyball.registry.acts.refusals import Refusals
from flyball.registry.events.clocks import too_late
from flyball.registry.events.event import Draft
from flyball.registry.events.log import now_us
from flyball.registry.handle import RegistryHandle
from flyball.registry.reads import Reading, event_view
from flyball.registry.views import GateView, ReceiptView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from flyball.registry.acts.interface import Actor, Candidate
    from flyball.registry.acts.rules import Allowed, Gate, Promotion
    from flyball.registry.events.event import Event
    from flyball.registry.events.state import NameState, Version
    from flyball.registry.home import Home
    from flyball.registry.packages.deployment import PackageFolder

_TRIES = 5  # for acts that concurrent acts cannot invalidate; others fail with the conflict
_REFUSALS = (3, 4)
_NO_ROOT = "sha256:" + "0" * 64  # before a package has one
_DIGESTS = ("models", "decision", "policy", "schema")


@dataclass(frozen=True, slots=True)
class GateInput:
    """The input of gates: a version, and its target environment."""

    handle: RegistryHandle
    name: str
    version: Version
    environment: str


class Registry(Reading):
    """A registry on this machine. `gates` check promotions; without gates promotions fail."""

    def __init__(self, opened: RegistryHandle, gates: Callable[[GateInput], list[Gate]] | None = None) -> None:
        super().__init__(opened)
        self._gates = gates
        self._refusals = Refusals(opened.log)

    @classmethod
    def open(cls, home: Home | Path | str | None = None, *, gates: Callable[[GateInput], list[Gate]] | None = None) -> Self:
        """Open a registry: the given home, else FLYBALL_REGISTRY, else `.flyball/registry`."""
        return cls(RegistryHandle.at(home), gates)

    def close(self) -> None:
        """Record pending refusal counts, then close connections."""
        try:
            with suppress(UnavailableError):  # an unreachable database must not prevent closing
                self._refusals.settle(now=True)
        finally:
            self.handle.close()

    def resolve(self, ref: str) -> PackageFolder:
        """The files of a version, for a decision that refers to it."""
        state, version = self.handle.find(ref)
        return self.handle.folder(state.name, version)

    def register(self, folder: Path, name: str, *, actor: Actor, reason: str = "") -> ReceiptView:
        """Store a package's folder, with its meta.json, as the next version of a name."""
        from flyball.artifacts.packages import put_package
        from flyball.registry.packages.check import check_package
        from flyball.registry.packages.deployment import PackageFolder
        from flyball.registry.packages.meta import META

        with self._refusing("register", name, actor, reason):
            self._check_name(name)
            meta, _ = check_package(PackageFolder(name, 1, _NO_ROOT, folder.absolute()), self.resolve)
            package = put_package(self.handle.store, folder, name=name)
            said = {
                "root": package.root,
                "manifest": package.manifest,
                "meta": next(file.digest for file in package.files if file.name == META),
                "tier": meta.card.tier,
                "author": actor.name,
                "kind": meta.kind,
                "references": [reference.model_dump() for reference in meta.references],
            }
            source = meta.lineage.source
            return self._repeated(name, actor, reason, lambda state: rules.register(state, actor, said), source=source)

    def sign(self, ref: str, *, bundle: bytes, release: bytes, actor: Actor, reason: str = "") -> ReceiptView:
        """Store the OMS bundle and the signed release, both made on the signer's machine."""
        with self._refusing("sign", ref, actor, reason):
            state, version = self.handle.find(ref)
            key = self._signer(state.name, version, bundle, release)
            owner, submitted = _owner(actor, key["name"])
            store = self.handle.store
            said = {"bundle": store.put_bytes(bundle).digest, "release": store.put_bytes(release).digest, **key, **submitted}
            number = version.number
            return self._repeated(state.name, owner, reason, lambda now: rules.sign(now, actor, number, said))

    def approve(self, ref: str, *, signature: str, key: str, actor: Actor, reason: str = "") -> ReceiptView:
        """Store an approver's signature (base64) over the release's payload; `key` is the key's hint."""
        with self._refusing("approve", ref, actor, reason):
            state, version = self.handle.find(ref)
            said = self._approval(ref, version, signature, key)
            owner, submitted = _owner(actor, said["approver"])
            approval_rules, number, release = self.handle.approval_rules(), version.number, version.release

            def judge(now: NameState) -> Allowed:
                if now.versions[number].release != release:
                    words = f"{ref} was signed again meanwhile; the approval is for the previous release"
                    raise GateRefusedError(
                        words, code="signed_anew", next_step=f"look at it, then:  flyball approve {ref} --key FILE"
                    )
                return rules.approve(now, approval_rules, actor, number, {**said, **submitted})

            return self._repeated(state.name, owner, reason, judge)

    def reject(self, ref: str, *, actor: Actor, reason: str) -> ReceiptView:
        """Reject a version: it can no longer be promoted."""
        with self._refusing("reject", ref, actor, reason):
            state, version = self.handle.find(ref)
            return self._once(state, actor, reason, rules.reject(state, actor, version.number, reason))

    def promote(
        self,
        ref: str,
        environment: str,
        *,
        actor: Actor,
        reason: str = "",
        candidate: Candidate | None = None,
        break_glass: bool = False,
    ) -> ReceiptView:
        """Place a version in an environment if every gate passes; the receipt lists the gates' results."""
        with self._refusing("promote", ref, actor, reason):
            state, version = self.handle.find(ref)
            approval_rules = self.handle.approval_rules()
            if approval_rules.approvals is None:
                self.handle.trust()  # raises with the cause
            asked = rules.Promotion(version.number, environment, candidate, break_glass, reason)
            rules.promotable(state, approval_rules, actor, asked)
            evidence = self._judged(state.name, version, asked)
            receipt = self._once(state, actor, reason, rules.promote(state, approval_rules, actor, asked, evidence))
            gates = [GateView(gate=gate.gate, passed=gate.passed, words=gate.words) for gate in evidence]
            return receipt.model_copy(update={"gates": gates})

    def rollback(self, name: str, environment: str, *, actor: Actor, reason: str = "", to: int | None = None) -> ReceiptView:
        """Restore the previous version, or an earlier one; skips versions that servers would refuse."""
        from flyball.registry.acts.release_check import judge

        with self._refusing("rollback", name, actor, reason):
            state, unfit = self.handle.known(name), judge(self.handle, environment)
            judged = rules.rollback(state, self.handle.approval_rules(), actor, environment, unfit=unfit, to=to)
            return self._once(state, actor, reason, judged)

    def alias(self, name: str, alias: str, version: int | None, *, actor: Actor, reason: str = "") -> ReceiptView:
        """Point an alias to a version, or remove it."""
        with self._refusing("alias", name, actor, reason):
            state = self.handle.known(name)
            return self._once(state, actor, reason, rules.alias(state, self.handle.approval_rules(), actor, alias, version))

    def revoke(self, ref: str, *, actor: Actor, reason: str, stop: bool = False) -> ReceiptView:
        """Revoke a version permanently. If it serves, `stop` is required, and the name stops there."""
        with self._refusing("revoke", ref, actor, reason):
            state, version = self.handle.find(ref)
            return self._once(state, actor, reason, rules.revoke(state, actor, version.number, reason, stop=stop))

    def retire(self, ref: str, *, actor: Actor, reason: str = "") -> ReceiptView:
        """Retire a version that nothing serves; its files may be collected once unreferenced."""
        with self._refusing("retire", ref, actor, reason):
            state, version = self.handle.find(ref)
            return self._once(state, actor, reason, rules.retire(state, actor, version.number))

    def forget(self, node: str, *, actor: Actor, reason: str = "") -> ReceiptView:
        """Remove a server that is gone from the status; its history stays."""
        with self._refusing("forget", node, actor, reason):
            if not actor.roles & ROLES_OF["forget"]:
                raise ForbiddenError(f"{actor.name} is not a deployer", next_step="ask a deployer")
            return _receipt(self.handle.nodes.forget(node, actor=actor, reason=reason)[0])

    def _once(self, state: NameState, actor: Actor, reason: str, judged: Allowed, source: str | None = None) -> ReceiptView:
        """Append an allowed act if the name has not changed since.

        `source`: the origin of an imported version, stored in the same transaction.
        """
        how = actor.authenticated
        drafts = [Draft(state.name, judged.kind, judged.body, actor.name, reason, state.revision, how)]
        if source:
            body = {"version": judged.body["version"], "from": source}
            drafts.append(Draft(state.name, "imported", body, actor.name, reason, authenticated=how))
        return _receipt(self.handle.log.append_all(drafts)[0])

    def _repeated(
        self,
        name: str,
        actor: Actor,
        reason: str,
        judge: Callable[[NameState], Allowed],
        source: str | None = None,
    ) -> ReceiptView:
        """Like `_once`, but evaluate again after a conflict: these acts never undo another one."""
        for left in reversed(range(_TRIES)):
            state = self.handle.state(name)
            try:
                return self._once(state, actor, reason, judge(state), source)
            except RegistryConflictError:
                if not left:
                    raise
        raise AssertionError("the last try returns or raises")

    @contextmanager
    def _refusing(self, act: str, ref: str, actor: Actor, reason: str) -> Iterator[None]:
        """Record a refusal as an event, then raise it."""
        try:
            yield
        except FlyballError as error:
            if error.exit_code in _REFUSALS:
                name = ref.partition("@")[0]
                words = error.message if ref in error.message else f"{ref}: {error.message}"
                self._refusals.write(act, name, error, words=words, actor=actor, reason=reason)
            raise

    def _check_name(self, name: str) -> None:
        if not is_name(name):
            raise RegistryRefusedError(f"{name!r} cannot be a name", next_step=NAME_WORDS)
        if other := self.handle.log.other_spelling(name):
            raise RegistryRefusedError(
                f"{other} exists already and differs only in case", next_step=f"register it as {other}"
            )

    def _signer(self, name: str, version: Version, bundle: bytes, release: bytes) -> dict[str, Any]:
        """The signing key and the release's end, after verifying both signatures and the release's content."""
        from flyball.signing.reasons import Reason, refused
        from flyball.signing.release import read_release
        from flyball.signing.strict import seconds

        now, trust = int(time.time()), self.handle.trust()
        root, ref = trust.package(bundle, now), f"{name}@{version.number}"
        if root != version.root:
            raise refused(Reason.ROOT_MISMATCH, f"the bundle is over {root}, and {ref} is {version.root}")
        trust.package(bundle, now, self.handle.folder(name, version).folder)  # the root does not cover file names
        author = trust.signers("release", release, now)[0]
        stated = read_release(release)
        predicate, subjects = self.handle.statement(name, version)
        said = stated.predicate.model_dump(by_alias=True)
        signer = json.loads(bundle)["verificationMaterial"]["publicKey"]["hint"]
        for part, wanted in {**predicate, "author": signer}.items():
            if said[part] != wanted:
                reason = Reason.WRONG_DIGEST if part in _DIGESTS else Reason.WRONG_SUBJECT
                raise refused(reason, f"the release says {part} {said[part]}, and {ref} has {wanted}")
        if stated.subjects != subjects:
            raise refused(Reason.WRONG_SUBJECT, f"the release does not name just the packages of {ref}")
        if unknown := set(stated.predicate.environments) - set(self.handle.home.settings.environments):
            known = ", ".join(self.handle.home.settings.environments)
            words = f"the registry has no environment {', '.join(sorted(unknown))}"
            raise refused(Reason.WRONG_ENVIRONMENT, words, f"environments are {known}")
        if seconds(stated.predicate.not_after) <= now:
            raise refused(Reason.EXPIRED, f"the release ended on {stated.predicate.not_after}", "make a new release")
        if "signer" not in author.roles:
            raise refused(
                Reason.WRONG_ROLE, f"{author.name} may not release {ref}", "let a key with the role signer sign it"
            )
        return {"key": author.hint, "name": author.name, "not_after": stated.predicate.not_after}

    def _approval(self, ref: str, version: Version, signature: str, key: str) -> dict[str, Any]:
        """A verified approval: over this release, by a key with the role approver."""
        from flyball.signing import dsse
        from flyball.signing.reasons import Reason, refused
        from flyball.signing.release import read_release

        trust, now = self.handle.trust(), int(time.time())
        if version.release is None:
            return {"key": key, "approver": "?", "signature": signature, "environments": []}  # `rules` refuses it
        approver = trust.key(key, now)
        if "approver" not in approver.roles:
            raise refused(Reason.WRONG_ROLE, f"{approver.name} may not approve", "let a key with the role approver sign")
        try:
            made = dsse.Signature(key, base64.b64decode(signature, validate=True))
        except binascii.Error as error:
            raise refused(Reason.MALFORMED, f"the approval of {ref} is not base64") from error
        envelope = self.handle.store.read(version.release)
        trust.signers("release", replace(dsse.read_envelope("release", envelope), signatures=(made,)).text(), now)
        places = read_release(envelope).predicate.environments
        return {"key": key, "approver": approver.name, "signature": signature, "environments": places}

    def _judged(self, name: str, version: Version, asked: Promotion) -> list[Gate]:
        if self._gates is None:
            raise RegistryRefusedError(
                "this registry was opened without gates, so nothing is promoted", next_step="open it by flyball.control"
            )
        return self._gates(GateInput(self.handle, name, version, asked.environment))


def _owner(actor: Actor, owner: str) -> tuple[Actor, dict[str, str]]:
    """The actor of a signature, its key's owner; and the submitter, if different."""
    submitted = {} if rules.person(actor.name) == rules.person(owner) else {"submitted_by": actor.name}
    return replace(actor, name=owner, authenticated="key"), submitted


def _receipt(event: Event) -> ReceiptView:
    body = event.body
    previous = body.get("previous", body.get("from"))
    return ReceiptView(
        event=event_view(event),
        version=body.get("version"),
        previous=previous,
        warning=too_late(event.at, now_us()),
    )
