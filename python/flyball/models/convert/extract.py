"""From a model, in memory or in a file, to its parts with the original's answers beside them.

Files are opened by a process of their own, but for ONNX, which the engine reads. Must not know what is written.
"""

from __future__ import annotations

import importlib
import pickle
import sys
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flyball.errors import InvalidInputError, UsageError
from flyball.models.convert.comparison_rows import Examined, examine
from flyball.models.convert.file_kinds import RUNS_CODE, kind_of, refuse_cut_off
from flyball.models.convert.in_memory import original_of
from flyball.models.convert.table import ROWS_MAX, is_arrays, read_table

if TYPE_CHECKING:
    from flyball.models.convert.table import Table
    from flyball.models.convert.tensor_model import Plain


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of a conversion, beside the model."""

    data: Any
    name: str
    target: str | None
    element: int | None
    rows_max: int | None
    trust_pickle: bool

    def table(self) -> Table:
        """The rows."""
        if self.data is None:
            raise UsageError("rows are needed to type the fields and to compare answers", next_step="--data rows.csv")
        return read_table(self.data, target=self.target, rows_max=self.rows_max or ROWS_MAX)


@dataclass(frozen=True, slots=True)
class Taken:
    """A model's parts, or a model of tensors alone, and where it came from."""

    held: Examined | Plain
    origin: dict[str, str]


def digest_of(content: bytes) -> str:
    """What bytes are known by."""
    return "sha256:" + sha256(content).hexdigest()


def from_memory(model: Any, asked: Request) -> Taken:
    """A model that somebody has loaded or trained."""
    from flyball.models.convert import from_torch

    kind = f"{type(model).__module__}.{type(model).__qualname__}"
    if from_torch.is_torch(model) and is_arrays(asked.data):
        tensor_model = from_torch.plain(model, _arrays(asked.data), asked.name)
        return Taken(tensor_model, {"kind": kind, "digest": digest_of(tensor_model.model)})
    table = asked.table()
    original = original_of(model, table, name=asked.name, element=asked.element)
    examined = _noted(examine(original, table, rows_max=asked.rows_max), table)
    return Taken(examined, {"kind": kind, "digest": _digest_of_model(model, examined)})


def from_code(named: str, asked: Request) -> Taken:
    """`module:callable`, which gives a module of PyTorch or any other model; found from the current folder on."""
    place, _, name = named.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        make = getattr(importlib.import_module(place), name)
    except (ImportError, AttributeError) as error:
        raise InvalidInputError(
            f"{named} cannot be found: {error}", next_step="name a function of a module here:  models:trained"
        ) from error
    finally:
        sys.path.pop(0)
    return from_memory(make(), asked)


def from_file(path: Path, asked: Request) -> Taken:
    """A model's file."""
    kind = kind_of(path)
    refuse_cut_off(path, kind)
    origin = {"kind": kind, "path": path.name, "digest": digest_of(path.read_bytes())}
    if kind == "onnx":
        return Taken(_of_onnx(path, asked), origin)
    if is_arrays(asked.data):
        raise UsageError(
            f"{path} is compared on rows of columns, and arrays were given",
            next_step="--data rows.csv   or, for a program over other tensors, name a function that loads it:"
            "  flyball convert MODULE:FUNCTION --data arrays.npz",
        )
    if kind in RUNS_CODE and not asked.trust_pickle:
        raise UsageError(
            f"{path} is {'a pickle' if kind == 'pickle' else 'of PyTorch'}, and may run whatever its maker wrote when it is"
            " loaded",
            code="pickle_untrusted",
            next_step="if you trust whoever made it:  --trust-pickle   (loaded without network, in its own process)",
        )
    from flyball.models.convert.loader import taken_apart

    table = asked.table()
    examined = taken_apart(path, kind, table, name=asked.name, element=asked.element, rows_max=asked.rows_max)
    if kind == "pickle":
        origin["kind"] = f"pickle of {examined.parts.kind}"
    return Taken(_noted(examined, table), origin)


def _of_onnx(path: Path, asked: Request) -> Examined | Plain:
    from flyball.models.convert import from_onnx, tensor_model

    read = from_onnx.read_onnx(path)
    came = from_onnx.as_it_came(path, read)
    model = from_onnx.loaded(read, asked.name)
    if asked.data is None or is_arrays(asked.data) or not model.is_table:
        return tensor_model.plain_onnx(model, came, asked.data)
    table = asked.table()
    original = from_onnx.original(model, came, table, name=asked.name, element=asked.element)
    return _noted(examine(original, table, rows_max=asked.rows_max), table)


def _noted(examined: Examined, table: Table) -> Examined:
    if table.infinite:
        told = f"{table.infinite} of the rows have an infinite number and were left out: a request cannot carry it"
        examined.parts.notes.append(told)
    return examined


def _arrays(data: Any) -> dict[str, Any]:
    import numpy as np

    if not isinstance(data, str | Path):
        return dict(data)
    with np.load(data, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _digest_of_model(model: Any, examined: Examined) -> str:
    """A model in memory has no file: what one would hold, or its answers, where it cannot be written to one."""
    try:
        return digest_of(pickle.dumps(model))
    except Exception:
        # Whatever is in a pipeline may refuse this in its own way, and nothing hangs on it.
        return digest_of(examined.expected.tobytes())
