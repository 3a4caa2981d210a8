"""A registry with people in it, for the tests: ada writes models, bob and cid approve, a publisher signs snapshots.

Everything is done through what the command line does it with; private keys never reach the registry.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.claims.registry.trusted import trusted
from flyball.control.gates import run_gates
from flyball.documents.snapshot import Bundle
from flyball.documents.snapshot.store import digest_of
from flyball.native.server_documents import Deployments, DeploymentState, SignedAck
from flyball.registry.acts.interface import Actor
from flyball.registry.acts.signatures import approval, signed
from flyball.registry.home import Home, RegistrySettings
from flyball.registry.local import LocalRegistry
from flyball.registry.packages.pack import Contents, pack
from flyball.registry.views import ReceiptView
from flyball.signing.policy import TrustPolicy
from flyball.signing.trust import sign_policy
from tests.support import onnx_models
from tests.support.registry_events import new_sqlite

ADA, BOB, CID = Actor("ada"), Actor("bob"), Actor("cid")
ENVIRONMENTS = ("dev", "staging", "production")
PEOPLE: dict[str, list[Any]] = {
    "ada": ["signer", "approver"],
    "bob": ["approver"],
    "cid": ["approver"],
    "publisher": ["publisher"],
}


class Desk:
    """A new registry in a folder, its trust policy, and everybody's keys."""

    def __init__(self, folder: Path, database: str | None = None) -> None:
        """`database`: the URL of one that is not SQLite."""
        self.folder = folder
        settings = RegistrySettings() if database is None else RegistrySettings(database=database)
        self.home = Home.create(folder / "registry", settings)
        if database is None:
            new_sqlite(self.home.folder)
        made = trusted(self.home, PEOPLE)
        self.root, self.keys, self.policy = made.root, made.keys, made.policy
        self.registry = self.opened()

    def opened(self) -> LocalRegistry:
        """The registry as another process would open it."""
        return LocalRegistry.open(self.home, gates=run_gates)

    def trust(self, policy: TrustPolicy) -> None:
        self.policy = policy
        self.home.trust.write_bytes(sign_policy(policy, [self.root]))

    def register(self, name: str = "fraud", *, seed: int | None = None, actor: Actor = ADA, **said: Any) -> str:
        """A new version; without any source it is a small linear model."""
        made = self.folder / f"package-{time.monotonic_ns()}"
        if not {"model", "decision", "folder"} & said.keys():
            source = self.folder / f"source-{time.monotonic_ns()}"
            source.mkdir()
            said["model"] = onnx_models.linear(source, seed=seed or time.monotonic_ns() % 100_000)
        pack(Contents(name=name, author=actor.name, **said), made, self.registry.resolve)
        return f"{name}@{self.registry.register(made, name, actor=actor, reason='a better one').version}"

    def sign(self, ref: str, *, by: str = "ada", environments: Sequence[str] = ENVIRONMENTS, days: int = 30) -> ReceiptView:
        registry = self.registry
        bundle, release = signed(
            registry.show(ref),
            registry.statement(ref),
            self.keys[by],
            environments=list(environments),
            not_after=int(time.time()) + days * 86_400,
        )
        return registry.sign(ref, bundle=bundle, release=release, actor=Actor(by))

    def approve(self, ref: str, *, by: str = "bob", actor: Actor | None = None) -> ReceiptView:
        made = approval(self.registry.show(ref), self.registry.release(ref), self.keys[by])
        return self.registry.approve(ref, signature=made.signature, key=made.key, actor=actor or Actor(by))

    def ready(self, name: str = "fraud", **said: Any) -> str:
        """A version that is signed and approved."""
        ref = self.register(name, **said)
        self.sign(ref)
        self.approve(ref)
        return ref

    def promote(self, ref: str, to: str = "production") -> None:
        """Through every environment on the way."""
        for environment in ENVIRONMENTS[: ENVIRONMENTS.index(to) + 1]:
            self.registry.promote(ref, environment, actor=ADA, reason="it is better")

    def kinds(self, name: str = "fraud") -> list[str]:
        return [event.kind for event in self.registry.history(name)]


@dataclass
class Paper:
    """A data plane of paper: takes everything but what `refuses` names."""

    refuses: set[str] = field(default_factory=set)
    applied: list[Bundle] = field(default_factory=list)
    waiting: bool = False
    node: str = "node-1"
    rows: dict[tuple[str, str], DeploymentState] = field(default_factory=dict)

    def apply(self, bundle: Bundle) -> None:
        self.applied.append(bundle)
        index = bundle.parsed_index()
        documents = {digest_of(document): document for document in bundle.documents}
        names = {one.name for one in index.deployments}
        self.rows = {key: row for key, row in self.rows.items() if key[0] in names}
        for one in index.deployments:
            serves = self.rows.get((one.name, "applied"))
            known = {"name": one.name, "digest": one.digest, "generation": index.generation}
            if one.name in self.refuses and (serves is None or serves.digest != one.digest):
                self.rows[one.name, "refused"] = DeploymentState(**known, state="refused", reason="unsigned: no")
                continue
            self.rows.pop((one.name, "refused"), None)
            version = json.loads(documents[one.digest])["signed"]["version"]
            signed = SignedAck(name=one.name, version=version, approvers=["bob"])
            self.rows[one.name, "applied"] = DeploymentState(**known, state="applied", signed=signed)

    def reports(self) -> dict[str, Deployments]:
        generation = self.applied[-1].parsed_index().generation if self.applied else 0
        return {self.node: Deployments(generation=generation, deployments=[self.rows[key] for key in sorted(self.rows)])}
