"""Registries for tests: a home with a trust policy, people with keys, and an admin API in front."""

import atexit
import contextlib
import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import urllib3

from bench.claims.registry.trusted import trusted, write_key
from flyball.control.admin.app import admin_app
from flyball.control.admin.listener import Address, AdminListener
from flyball.control.admin.uploads import Uploads
from flyball.control.gates import run_gates
from flyball.registry.acts.interface import ROLES, Actor
from flyball.registry.acts.signatures import approval, signed
from flyball.registry.home import Home, RegistrySettings
from flyball.registry.local import LocalRegistry
from flyball.registry.packages.pack import Contents, pack
from flyball.signing import keys
from tests.support import onnx_models
from tests.support.registry_events import new_sqlite

PEOPLE = {"ada": ["signer"], "grace": ["approver"], "barbara": ["approver"], "control": ["publisher"]}


@dataclass
class House:
    """A folder with a registry in it, and the keys of people beside it."""

    folder: Path
    tokens: dict[str, str] = field(default_factory=dict)
    """An API key for each role, named after it."""

    @property
    def home(self) -> Path:
        return self.folder / "registry"

    def key(self, name: str) -> Path:
        return self.folder / f"{name}.pem"

    def private(self, name: str) -> keys.PrivateKey:
        return keys.load_private(self.key(name))

    @contextlib.contextmanager
    def opened(self) -> Iterator[LocalRegistry]:
        registry = LocalRegistry.open(self.home, gates=run_gates)
        try:
            yield registry
        finally:
            registry.close()

    def package(self, name: str, seed: int, **more: Any) -> Path:
        """A package's folder around a small model; another seed makes other files."""
        folder = self.folder / f"package-{name}-{seed}"
        if not folder.exists():
            model = onnx_models.linear(self.folder, f"{name}-{seed}", seed=seed)
            pack(Contents(name=name, author="ada", model=model, **more), folder, created="2026-11-16T04:00:00Z")
        return folder

    def approved(self, registry: LocalRegistry, name: str = "fraud", seed: int = 1) -> str:
        """A version that everybody who must has signed and approved; gives NAME@NUMBER."""
        receipt = registry.register(self.package(name, seed), name, actor=Actor("ada"))
        ref = f"{name}@{receipt.version}"
        self.sign(registry, ref)
        made = approval(registry.show(ref), registry.release(ref), self.private("grace"))
        registry.approve(ref, signature=made.signature, key=made.key, actor=Actor("grace"))
        return ref

    def sign(self, registry: LocalRegistry, ref: str) -> None:
        places = registry.status().environments
        bundle, release = signed(
            registry.show(ref),
            registry.statement(ref),
            self.private("ada"),
            environments=places,
            not_after=int(time.time()) + 30 * 86_400,
        )
        registry.sign(ref, bundle=bundle, release=release, actor=Actor("ada"))


def make(folder: Path, environments: list[str] | None = None) -> House:
    """A new home, with an API key for each role: a copy of one that is made once, so people have the same keys in all."""
    made = _made_once(tuple(environments or RegistrySettings().environments))
    shutil.copytree(made.folder, folder, dirs_exist_ok=True)
    return House(folder, dict(made.tokens))


@cache
def _made_once(environments: tuple[str, ...]) -> House:
    folder = Path(tempfile.mkdtemp(prefix="flyball-home-"))
    atexit.register(shutil.rmtree, folder)
    return of_strangers(folder, environments)


def of_strangers(folder: Path, environments: tuple[str, ...] = ("dev",)) -> House:
    """A new home of people whom no other home knows."""
    house = House(folder)
    home = Home.create(house.home, RegistrySettings(environments=list(environments)))
    new_sqlite(home.folder)
    trust(house, home)
    with house.opened() as registry:
        for role in ROLES:
            house.tokens[role] = registry.add_key(role, [role], actor=Actor("owner"))
    return house


def trust(house: House, home: Home) -> None:
    """A trust policy in the home, and everybody's private key beside it."""
    for name, key in trusted(home, PEOPLE).keys.items():
        write_key(house.key(name), key)


@dataclass(frozen=True)
class Answer:
    """What the admin API answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


@dataclass
class Admin:
    """A running admin API, and a plain client of it."""

    url: str
    house: House

    def ask(
        self,
        method: str,
        path: str,
        *,
        role: str | None = None,
        key: str | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        sent = dict(headers or {})
        token = key if key is not None else self.house.tokens.get(role or "")
        if token:
            sent["authorization"] = f"Bearer {token}"
        content = body
        if isinstance(body, dict):
            content, sent = json.dumps(body).encode(), {"content-type": "application/json", **sent}
        answer = urllib3.request(method, self.url + path, body=content, headers=sent, redirect=False, retries=False)
        return Answer(answer.status, answer.headers, answer.data)


@contextlib.contextmanager
def admin(house: House, bytes_max: int = 64 << 20) -> Iterator[Admin]:
    """The admin API over a home, on a free port."""
    with house.opened() as registry:
        app = admin_app(registry, Uploads(house.folder, bytes_max))
        listener = AdminListener(app, Address.read("127.0.0.1:0"))
        listener.start()
        try:
            yield Admin(listener.url, house)
        finally:
            listener.stop()
