"""The registry's verbs as typed on the command line, on a home or over HTTP."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import onnx_models, registry_homes

Ran = tuple[int, str, str]


@dataclass
class Shell:
    """The command line, with a registry that is named by its folder or by its address."""

    house: registry_homes.House
    where: str
    run: Callable[..., Ran]
    monkeypatch: pytest.MonkeyPatch

    def __call__(self, *words: str | Path, role: str = "deployer") -> Ran:
        self.monkeypatch.setenv("FLYBALL_REGISTRY", self.where)
        self.monkeypatch.setenv("FLYBALL_REGISTRY_KEY", self.house.tokens[role])
        self.monkeypatch.setenv("FLYBALL_ACTOR", "" if words[0] == "approve" else "ada")
        code, out, err = self.run(*words)
        # The admin API runs in this process here, and its log goes to the same stream.
        return code, out, "".join(line for line in err.splitlines(keepends=True) if not line.startswith('{"level"'))

    def done(self, *words: str | Path, role: str = "deployer") -> str:
        code, out, err = self(*words, role=role)
        assert code == 0, err
        return out

    def json(self, *words: str | Path, role: str = "deployer") -> Any:
        return json.loads(self.done(*words, "--json", role=role))

    def approved(self, seed: int) -> str:
        """The next version of fraud, ready to be promoted."""
        model = onnx_models.linear(self.house.folder, f"model-{seed}", seed=seed)
        number = self.json("register", "fraud", model)["number"]
        self.done("sign", f"fraud@{number}", "--key", self.house.key("ada"))
        self.done("approve", f"fraud@{number}", "--key", self.house.key("grace"), role="approver")
        return f"fraud@{number}"
