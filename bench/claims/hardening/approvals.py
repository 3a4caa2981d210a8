"""The command line, a small model, and a registry with people and keys, for attempts.

Imports nothing of flyball. Must not know the attempts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from pathlib import Path

    from bench.claims.hardening.attempts import Build

WAIT_S = 120.0


def small_model(path: Path, seed: int) -> Path:
    """y = x · w, for two columns."""
    weights = np.random.default_rng(seed).normal(size=(2, 1)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 1])],
        [numpy_helper.from_array(weights, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@dataclass(frozen=True, slots=True)
class House:
    """A folder with a registry, in which ada signs and grace approves."""

    build: Build
    folder: Path

    @classmethod
    def made(cls, build: Build, folder: Path) -> House:
        """With version 1 of `fraud` signed, and not approved."""
        house = cls(build, folder)
        house.done("registry", "init", "--environment", "production")
        for name in ("root", "ada", "grace", "control"):
            house.done("key", "new", f"{name}.pem")
        shutil.copy(folder / "root.pub", folder / "home" / "root.pub")
        house.done("trust", "init")
        for name, role in (("ada", "signer"), ("grace", "approver"), ("control", "publisher")):
            house.done("trust", "add", f"{name}.pub", "--name", name, "--role", role)
        house.version(1)
        return house

    def version(self, number: int) -> None:
        """One more version of `fraud`, signed by ada."""
        model = small_model(self.folder / f"fraud-{number}.onnx", number)
        self.done("register", "fraud", model.name)
        self.done("sign", f"fraud@{number}", "--key", "ada.pem")

    def command(self, *words: str, actor: str = "ada") -> dict[str, Any]:
        """Arguments of `subprocess` for a verb."""
        return {
            "args": [self.build.flyball, *words],
            "cwd": self.folder,
            "env": {**os.environ, "FLYBALL_REGISTRY": str(self.folder / "home"), "FLYBALL_ACTOR": actor},
            "text": True,
        }

    def run(self, *words: str, actor: str = "ada") -> subprocess.CompletedProcess[str]:
        """A verb that may fail."""
        return subprocess.run(**self.command(*words, actor=actor), capture_output=True, timeout=WAIT_S, check=False)

    def done(self, *words: str, actor: str = "ada") -> str:
        """A verb that must not."""
        ended = self.run(*words, actor=actor)
        if ended.returncode:
            raise RuntimeError(f"flyball {' '.join(words)}: {ended.stderr.strip()[-300:]}")
        return ended.stdout
