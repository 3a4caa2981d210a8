"""What a registry can be asked and told, whether on this machine (`acts/registry.py`) or behind HTTP (`remote/registry.py`).

The command line and the admin API speak to this and to nothing else. A private key never passes it: who signs asks for the
files or the release, signs where the key is, and hands over what the key made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    import builtins  # a method is called `list`
    from datetime import datetime
    from pathlib import Path

    from flyball.registry.views import (
        EventView,
        Head,
        MomentView,
        NameView,
        ReceiptView,
        StatementView,
        StatusView,
        VerifiedView,
        VersionDetail,
        VersionView,
    )

READER, DEPLOYER, APPROVER, AUDITOR = "reader", "deployer", "approver", "auditor"
ROLES = (READER, DEPLOYER, APPROVER, AUDITOR)

_ANYONE = frozenset(ROLES)
# What each act wants: one of these roles. `rules.py` holds people to it, and the admin API before it reads a body.
ROLES_OF: dict[str, frozenset[str]] = {
    "read": _ANYONE,
    "events": frozenset({AUDITOR}),
    "verify": frozenset({AUDITOR}),
    "register": frozenset({DEPLOYER}),
    "import": frozenset({DEPLOYER}),
    "sign": frozenset({DEPLOYER}),
    "approve": frozenset({APPROVER}),
    "reject": frozenset({APPROVER}),
    "promote": frozenset({DEPLOYER}),
    "rollback": frozenset({DEPLOYER}),
    "alias": frozenset({DEPLOYER}),
    "revoke": frozenset({DEPLOYER, APPROVER}),
    "retire": frozenset({DEPLOYER}),
    "forget": frozenset({DEPLOYER}),
}
READS = frozenset({"read", "events", "verify"})


Authenticated = Literal["key", "api-key", "os-user", "server", "none"]
"""How an actor's name was established: by the signing key's owner in the trust policy, an API key, the operating system's
user, the server itself about what it did; or not at all."""


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts, and what they may do. Over HTTP the server knows both by the key, and believes nothing else."""

    name: str
    roles: frozenset[str] = frozenset(ROLES)
    authenticated: Authenticated = "none"


@dataclass(frozen=True, slots=True)
class Candidate:
    """How much of an environment's requests a version gets beside the one that is placed there."""

    share: float = 0.0
    shadow: bool = False


class Acting(Protocol):
    """A registry. `ref` is NAME@NUMBER or NAME@ALIAS; every act needs an actor and gives a receipt with its event.

    What is refused raises a `FlyballError` with its code and next step, and is an event by then.
    """

    def head(self) -> Head:
        """The last event."""

    def names(self, *, after: str | None = None, limit: int = 100) -> list[NameView]:
        """The names, in their order, with the newest version of each and what is placed where."""

    def versions(self, name: str, *, before: int | None = None, limit: int = 100) -> builtins.list[VersionView]:
        """The versions of a name, newest first."""

    def show(self, ref: str) -> VersionDetail:
        """One version, with its card, its files, who signed and who approved."""

    def history(self, name: str | None = None, *, after: int = 0, limit: int = 1000) -> builtins.list[EventView]:
        """The events of a name, or all of them, oldest first, from behind a sequence number on."""

    def at(self, when: datetime | None = None, name: str | None = None) -> MomentView:
        """What was placed at a moment, by default now, who had approved it, and what the servers said that they served."""

    def status(self, name: str | None = None) -> StatusView:
        """What is placed where, what the servers say that they serve, and what waits for people."""

    def verify(self, *, quick: bool = False) -> VerifiedView:
        """Checks the chain, the projections and every artifact's bytes; quick: only that the artifacts are there."""

    def register(self, folder: Path, name: str, *, actor: Actor, reason: str = "") -> ReceiptView:
        """Keeps a package's folder (with its meta.json) as the next version of a name."""

    def sign(self, ref: str, *, bundle: bytes, release: bytes, actor: Actor, reason: str = "") -> ReceiptView:
        """Takes the OMS bundle over the files and the signed release statement, both made where the key is."""

    def statement(self, ref: str) -> StatementView:
        """What a release of the version must say."""

    def bundle(self, ref: str) -> bytes:
        """The signature over its files, an OpenSSF Model Signing bundle."""

    def release(self, ref: str) -> bytes:
        """The release statement as it stands, an envelope: what approvers put their signatures to."""

    def approve(self, ref: str, *, signature: str, key: str, actor: Actor, reason: str = "") -> ReceiptView:
        """Takes an approver's signature (base64) over the release's payload; `key` is the hint of its key."""

    def reject(self, ref: str, *, actor: Actor, reason: str) -> ReceiptView:
        """Says no to a version: it is placed nowhere from then on."""

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
        """Places a version in an environment once every gate passed; the receipt has what they found."""

    def rollback(self, name: str, environment: str, *, actor: Actor, reason: str = "", to: int | None = None) -> ReceiptView:
        """Puts back the version that was placed before, or an earlier one."""

    def alias(self, name: str, alias: str, version: int | None, *, actor: Actor, reason: str = "") -> ReceiptView:
        """Lets an alias lead to a version, or nowhere."""

    def revoke(self, ref: str, *, actor: Actor, reason: str, stop: bool = False) -> ReceiptView:
        """Takes a version back for good. Where it serves, that must be wanted: the name stops there."""

    def retire(self, ref: str, *, actor: Actor, reason: str = "") -> ReceiptView:
        """Ends a version that nothing serves; its files may be collected once no event needs them."""

    def forget(self, node: str, *, actor: Actor, reason: str = "") -> ReceiptView:
        """Takes a server that is gone out of what is shown; what it served while it was there stays in the history."""

    def fetch(self, ref: str, folder: Path) -> VersionDetail:
        """Puts the files of a version into a folder that is not there yet; they are verified on the way."""

    def import_file(self, file: Path, *, actor: Actor, reason: str = "") -> builtins.list[VersionView]:
        """Keeps the versions of a bundle file, after everything in it was verified; gives those that are new here."""

    def close(self) -> None:
        """Gives back connections."""
