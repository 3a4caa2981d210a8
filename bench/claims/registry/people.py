"""A registry with a signer, approvers and a publisher; and servers that follow it.

The admin API is a process beside them. Must not know what is claimed.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.claims.registry.trusted import trusted, write_key
from bench.claims.subjects import ANY_PORT
from bench.parts.here import until
from flyball.bench.process import Process
from flyball.control.gates import run_gates
from flyball.native.boundary import ort_library
from flyball.registry.acts.interface import Actor
from flyball.registry.acts.signatures import approval, signed
from flyball.registry.home import Home
from flyball.registry.local import LocalRegistry
from flyball.registry.packages.pack import Contents, pack
from flyball.registry.remote.registry import RemoteRegistry
from flyball.signing import keys
from flyball.signing.trust import sign_policy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flyball.registry.home import RegistrySettings
    from flyball.signing.policy import Role

AUTHOR, APPROVER = Actor("ada"), Actor("bob")
PRODUCTION = "production"
COMMAND = str(Path(sys.executable).parent / "flyball")
ENVIRONMENTS = ("dev", "staging", PRODUCTION)
_ROLES: dict[str, list[Role]] = {"ada": ["signer"], "bob": ["approver"], "eve": ["signer"], "publisher": ["publisher"]}


class People:
    """A new registry in a folder, and everybody's keys."""

    def __init__(self, folder: Path, settings: RegistrySettings | None = None) -> None:
        folder.mkdir(parents=True)
        self.folder, self.home = folder, Home.create(folder / "registry", settings)
        self._trusted = trusted(self.home, _ROLES)
        self._keys = self._trusted.keys
        self._serial = self._trusted.policy.serial
        for name, key in self._keys.items():
            write_key(self.key(name), key)
        self.registry = LocalRegistry.open(self.home, gates=run_gates)

    def key(self, name: str) -> Path:
        """The file of somebody's private key."""
        return self.folder / f"{name}.pem"

    def version(self, name: str, model: Path | None = None, *, decision: Path | None = None, signer: str = "ada") -> str:
        """A new version of a model or a decision, signed and approved, as NAME@N."""
        made = self.folder / f"package-{time.monotonic_ns()}"
        pack(Contents(name=name, author=signer, model=model, decision=decision), made, self.registry.resolve)
        registry, author = self.registry, Actor(signer)
        ref = f"{name}@{registry.register(made, name, actor=author, reason='measured').version}"
        bundle, release = signed(
            registry.show(ref),
            registry.statement(ref),
            self._keys[signer],
            environments=ENVIRONMENTS,
            not_after=int(time.time()) + 30 * 86_400,
        )
        registry.sign(ref, bundle=bundle, release=release, actor=author)
        given = approval(registry.show(ref), registry.release(ref), self._keys["bob"])
        registry.approve(ref, signature=given.signature, key=given.key, actor=APPROVER)
        return ref

    def revoke(self, *names: str) -> None:
        """Write a policy in which the keys of just these people are revoked; nobody: all keys are good again."""
        now, policy = int(time.time()), self._trusted.policy.model_copy(update={"serial": self._serial})
        for name in names:
            policy = policy.revoking(keys.hint(self._keys[name].public_key()), "measured", now)
        policy = policy.renewed(now, None)
        self._serial = policy.serial
        fresh = self.home.trust.with_suffix(".new")
        fresh.write_bytes(sign_policy(policy, [self._trusted.root]))
        fresh.replace(self.home.trust)

    def promote(self, ref: str, environments: Sequence[str] = ENVIRONMENTS) -> None:
        """To production, on its way through what comes before."""
        for environment in environments:
            self.registry.promote(ref, environment, actor=AUTHOR, reason="measured")


@dataclass(frozen=True, slots=True)
class Following:
    """A server that follows a registry, and the registry over its admin API."""

    server: Process
    admin: RemoteRegistry

    def serves(self, name: str, version: int) -> bool:
        """Whether the server said so."""
        nodes = self.admin.status(name).nodes
        return any(node.state == "applied" and node.version == version for node in nodes)


@contextmanager
def following(people: People, server_cpus: Sequence[int], other_cpus: Sequence[int]) -> Iterator[Following]:
    """Both as processes of their own; leaving ends them."""
    key = people.registry.add_key("deploys", ["deployer"], actor=AUTHOR)
    admin = [COMMAND, "admin", "--registry", str(people.home.folder), *ANY_PORT]
    with (
        serving(people, server_cpus) as server,
        Process(admin, cpus=other_cpus, environment=_environment()) as listening,
        closing(RemoteRegistry(listening.url, key)) as remote,
    ):
        yield Following(server, remote)


def serving(people: People, cpus: Sequence[int] | None) -> Process:
    """`flyball serve --registry`: the control loop and the data plane in one process."""
    state = ["--state-folder", str(people.folder / "state")]
    return Process([COMMAND, "serve", *_followed(people), *state, *ANY_PORT], cpus=cpus, environment=_environment())


@contextmanager
def controlled(people: People, flyballd: Path, cpus: Sequence[int] | None, more: Sequence[str] = ()) -> Iterator[Process]:
    """flyballd, which watches a folder, and `flyball control`, which keeps the folder at what the registry says.

    `more` are further arguments of flyballd.
    """
    out = people.folder / "control"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    words = [COMMAND, "control", *_followed(people), "--out", str(out), "--node", f"http://{address}"]
    with (people.folder / "control.log").open("wb") as log:
        control = subprocess.Popen(words, env={**os.environ, **_environment()}, stdout=log, stderr=log)
    try:
        until("flyball control has written a snapshot", (out / "index.json").is_file)
        trust = ["--trust-root", str(out / "root.pub"), "--trust-policy", str(out / "trust.json")]
        plane = [str(flyballd), "--snapshot", str(out / "index.json"), "--watch", *trust, "--listen", address, *more]
        with Process(plane, cpus=cpus, environment=_environment()) as server:
            yield server
    finally:
        control.kill()
        control.wait()


def _followed(people: People) -> list[str]:
    return ["--registry", str(people.home.folder), "--publisher-key", str(people.key("publisher"))]


def _environment() -> dict[str, str]:
    return {"ORT_DYLIB_PATH": str(ort_library())}
