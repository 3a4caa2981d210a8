"""A registry that goes away just after an act: what stands is said, so that nobody does it twice."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flyball.errors import RegistryUnavailableError
from flyball.registry.local import LocalRegistry
from tests.support import onnx_models, registry_homes


def test_an_act_that_was_kept_before_the_registry_went_away_says_so(
    tmp_path: Path, run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    house = registry_homes.make(tmp_path)
    verbs: dict[str, list[str | Path]] = {
        "register": ["fraud", onnx_models.linear(tmp_path, "model", seed=1)],
        "sign": ["fraud@1", "--key", house.key("ada")],
        "approve": ["fraud@1", "--key", house.key("grace")],
        "promote": ["fraud@1", "--environment", "dev"],
    }
    for verb, words in verbs.items():
        with monkeypatch.context() as later:
            away_after(later, verb)
            code, _, err = run(verb, *words, "--registry", house.home, "--json")
        told = json.loads(err)
        assert code == 5
        assert "recorded as event" in told["error"], told
        assert told["next"] == "do not repeat it; once the registry is back:  flyball registry history fraud"
    with house.opened() as registry:
        assert [event.kind for event in registry.history("fraud")] == ["registered", "signed", "approved", "promoted"]


def away_after(monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    """Let the registry be lost once an act of it is done."""
    act = getattr(LocalRegistry, verb)

    def lost(*_: Any, **__: Any) -> None:
        raise RegistryUnavailableError("it cannot be reached", next_step="nothing was changed; try again")

    def done(*arguments: Any, **named: Any) -> Any:
        receipt = act(*arguments, **named)
        for question in ("show", "status"):
            monkeypatch.setattr(LocalRegistry, question, lost)
        return receipt

    monkeypatch.setattr(LocalRegistry, verb, done)
