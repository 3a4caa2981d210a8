"""What to say of a path that is no ONNX model: what it is by its name, and the command that takes it.

What is in a file, the data plane says.
"""

from __future__ import annotations

import shlex
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from flyball.documents.near_files import near_file, no_such_file
from flyball.errors import ModelRefusedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_DECISIONS = (".yaml", ".yml")
_CONVERTED = (".pkl", ".pickle", ".joblib", ".txt", ".ubj", ".pt2", ".bst")


@contextmanager
def models_read(models: Sequence[str], command: str) -> Iterator[None]:
    """Name a refused model better, if it is missing, a folder, or a file of another kind. `command` takes models."""
    try:
        yield
    except (ModelRefusedError, UsageError) as error:
        for text in models:
            _, equals, path = text.partition("=")
            file = Path(path if equals and path and not Path(text).exists() else text)
            if isinstance(error, ModelRefusedError) or file.is_dir():
                _refuse(file, command)
        if error.next_step is None and "truncated" in error.message:
            error.next_step = "copy the file again, or export the model again"
        raise


def _refuse(path: Path, command: str) -> None:
    quoted = shlex.quote(str(path))
    if path.is_dir():
        raise ModelRefusedError(f"{path} is a directory, not an ONNX file", next_step=_in_folder(path, command))
    if not path.exists():
        meant = near_file(path)
        given = "MODEL.onnx" if meant is None else shlex.quote(str(meant))
        step = _as_decision(command, given) if given.endswith(_DECISIONS) else f"flyball {command} {given}"
        raise ModelRefusedError(f"cannot read {path}: {no_such_file(path)}", next_step=step)
    suffix = path.suffix.lower()
    if suffix in _DECISIONS:
        step = f"flyball check {quoted}" if command == "inspect" else _as_decision(command, quoted)
        raise ModelRefusedError(f"{path} is YAML, not an ONNX model; is it a decision?", next_step=step)
    if suffix in _CONVERTED:
        step = f"convert it first:  flyball convert {quoted} --data ROWS --out DIR"
        raise ModelRefusedError(f"{path} is not an ONNX model", next_step=step)


def _as_decision(command: str, path: str) -> str:
    return f"flyball {command} --decision {path}"


def _in_folder(folder: Path, command: str) -> str:
    """What to give instead of a folder: the model, decision, snapshot or repository in it."""
    quoted = shlex.quote(str(folder))
    for pattern in ("decision.yaml", "*.yaml"):
        for found in sorted(folder.glob(pattern))[:1]:
            if command != "inspect":
                return _as_decision(command, shlex.quote(str(found)))
    if command != "register":
        if (folder / "index.json").is_file() and command == "serve":
            return f"flyball serve --snapshot {quoted}/index.json"
        if any(folder.glob("*/config.pbtxt")) or any(folder.glob("*/[0-9]*/model.*")):
            return f"flyball {command} --model-repository {quoted}"
    models = sorted(folder.glob("*.onnx"))
    return f"flyball {command} {shlex.quote(str(models[0]))}" if models else f"give the file:  flyball {command} MODEL.onnx"
