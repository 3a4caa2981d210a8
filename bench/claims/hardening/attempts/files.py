"""Attempts on model files: links, pipes and devices instead of external data."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

from bench.claims.hardening.attempts import Build, Seen, attempt
from bench.claims.hardening.raw_server import model, run

if TYPE_CHECKING:
    from pathlib import Path

_WEIGHTS = struct.pack("<4f", 1, 2, 3, 4)


def _linked(folder: Path) -> Path:
    """A model whose weights are a link to a file elsewhere."""
    secret = folder / "elsewhere" / "secret.bin"
    secret.parent.mkdir(exist_ok=True)
    secret.write_bytes(_WEIGHTS)
    made = model(folder / "made" / "m.onnx", beside="w.bin")
    (made.parent / "w.bin").symlink_to(secret)
    return made


def _judged(code: int, words: str) -> Seen:
    text = "served" if code == 0 else "hangs" if code == 124 else f"refused: {words.strip().splitlines()[0][:120]}"
    return Seen(text, holds=code not in {0, 124} and "link" in words)


@attempt("A model's external data may be a link to any file: serving and inspecting it")
def linked_weights_are_served(build: Build, folder: Path) -> Seen:
    """`inspect` loads a model as `serve` does, and ends by itself."""
    ended = run([build.flyball, "inspect", str(_linked(folder))], folder)
    return _judged(ended.returncode, ended.stderr + ended.stdout)


@attempt("A model's external data may be a link to any file: packing a snapshot")
def linked_weights_are_packed(build: Build, folder: Path) -> Seen:
    """The file behind the link would be copied and served elsewhere."""
    ended = run([build.flyball, "snapshot", str(_linked(folder)), "--out", str(folder / "out")], folder)
    return _judged(ended.returncode, ended.stderr + ended.stdout)


@attempt("A model's external data may be a link to any file: a model repository")
def linked_weights_in_a_repository(build: Build, folder: Path) -> Seen:
    """Triton's layout."""
    made = _linked(folder)
    version = folder / "repository" / "m" / "1"
    version.mkdir(parents=True)
    made.rename(version / "model.onnx")
    (version / "w.bin").symlink_to(folder / "elsewhere" / "secret.bin")
    command = [build.flyball, "snapshot", "--model-repository", str(folder / "repository"), "--out", str(folder / "out")]
    ended = run(command, folder)
    return _judged(ended.returncode, ended.stderr + ended.stdout)


@attempt("A model's external data may be a link to any file: registering it")
def linked_weights_are_registered(build: Build, folder: Path) -> Seen:
    """The file behind the link would become part of a package."""
    home = folder / "registry"
    run([build.flyball, "registry", "init", str(home)], folder)
    made = _linked(folder)
    ended = run([build.flyball, "register", "fraud", str(made), "--registry", str(home)], folder)
    return _judged(ended.returncode, ended.stderr + ended.stdout)


@attempt("A pipe in the place of external data makes the reader wait for ever")
def pipe_for_weights(build: Build, folder: Path) -> Seen:
    """Nobody ever writes to it."""
    made = model(folder / "made" / "m.onnx", beside="w.bin")
    os.mkfifo(made.parent / "w.bin")
    ended = run([build.flyball, "inspect", str(made)], folder, 30.0)
    words = (ended.stderr + ended.stdout).strip()
    hangs = ended.returncode == 124
    return Seen("hangs" if hangs else f"refused: {words.splitlines()[0][:120]}", holds=ended.returncode not in {0, 124})
