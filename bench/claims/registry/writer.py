"""A process that registers, signs, promotes and rolls back until it is killed, and reports what was acknowledged.

Run:  python -m bench.claims.registry.writer FOLDER   For each line that it reads it forks a child, which acts; so only the
first one takes the time to import everything. Must not know who kills, or when.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.claims.registry.trusted import trusted, write_key
from flyball.bench.models.perceptron import make_mlp
from flyball.registry.acts.interface import Actor
from flyball.registry.acts.signatures import signed
from flyball.registry.home import Home
from flyball.registry.local import LocalRegistry
from flyball.registry.packages.meta import Card
from flyball.registry.packages.pack import Contents, pack
from flyball.signing import keys

if TYPE_CHECKING:
    from flyball.registry.views import ReceiptView

NAMES = ("fraud", "churn")
_ACTOR = Actor("risk")
_KEY = "signer.pem"


def prepare(folder: Path) -> Home:
    """A registry with a trust policy, and the key of the one who signs."""
    home = Home.create(folder / "home")
    write_key(folder / _KEY, trusted(home, {"risk": ["signer"]}).keys["risk"])
    LocalRegistry.open(home).close()  # makes the tables, so that no child has to
    return home


def act_without_end(folder: Path) -> None:
    """Each turn is a new version, placed everywhere and taken back from where another one was before."""
    registry = LocalRegistry.open(folder / "home", gates=lambda _subject: [])
    key = keys.load_private(folder / _KEY)
    for turn in range(1_000_000):
        name = NAMES[turn % len(NAMES)]
        ref = _registered(registry, name, seed=os.getpid() * 1000 + turn)
        environments = ["dev", "staging", "production"]
        bundle, release = signed(
            registry.show(ref), registry.statement(ref), key, environments=environments, not_after=int(time.time()) + 86_400
        )
        _say("sign", registry.sign(ref, bundle=bundle, release=release, actor=_ACTOR))
        for environment in environments:
            placed = registry.promote(ref, environment, actor=_ACTOR, reason="better")
            _say("promote", placed)
        if placed.previous is not None:
            _say("rollback", registry.rollback(name, "production", actor=_ACTOR, reason="worse"))


def _registered(registry: LocalRegistry, name: str, seed: int) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        model = make_mlp(Path(scratch, "model.onnx"), sizes=(8, 64, 1), seed=seed % 2**31)
        contents = Contents(name=name, author=_ACTOR.name, model=model, card=Card(tier="low"))
        pack(contents, Path(scratch, "package"))
        receipt = registry.register(Path(scratch, "package"), name, actor=_ACTOR, reason="a new one")
    _say("register", receipt)
    return f"{name}@{receipt.version}"


def _say(act: str, receipt: ReceiptView) -> None:
    _print({"act": act, "sequence": receipt.event.sequence, "hash": receipt.event.hash})


def _print(document: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def main(folder: Path) -> None:
    """One child for each line."""
    _print({"warm": True})
    for _line in sys.stdin:
        child = os.fork()
        if child == 0:
            _print({"pid": os.getpid()})
            act_without_end(folder)
        os.waitpid(child, 0)
        _print({"ended": child})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
