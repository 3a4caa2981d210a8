"""Extracts a model's parts and the original's answers, from memory or from a file.

Files are opened in a separate process, except ONNX, which the engine reads. Must not know what is written.
"""

from __future__ import annotations

import importlib
import pickle
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flyball.documents.snapshot.store import digest_of
from flyball.errors import InvalidInputError, UsageError
from flyball.models import attribution
from flyball.models.convert.comparison_rows import Reference, make_reference
from flyball.models.convert.file_kinds import CAN_BE_READ, RUNS_CODE, kind_of, refuse_cut_off
from flyball.models.convert.parts import Original
from flyball.models.convert.table import ROWS_MAX, Table, arrays_of, is_arrays, read_table

if TYPE_CHECKING:
    from flyball.models.convert.tensor_model import TensorModel


@dataclass(frozen=True, slots=True)
class Request:
    """The conversion's settings, apart from the model."""

    data: Any
    name: str
    target: str | None
    element: int | None
    rows_max: int | None
    trust_pickle: bool

    def table(self) -> Table:
        """The data as a table."""
        if self.data is None:
            raise UsageError("--data is required: rows give the field types and are compared", next_step="--data rows.csv")
        return read_table(self.data, target=self.target, rows_max=self.rows_max or ROWS_MAX)


@dataclass(frozen=True, slots=True)
class Extracted:
    """A model's parts, or a tensor model, and where it came from."""

    held: Reference | TensorModel
    origin: dict[str, str]


def from_memory(model: Any, request: Request) -> Extracted:
    """Extract a model that is already loaded or trained."""
    from flyball.models.convert import from_torch

    kind = f"{type(model).__module__}.{type(model).__qualname__}"
    if from_torch.is_torch(model) and is_arrays(request.data):
        tensor_model = from_torch.plain(model, arrays_of(request.data), request.name)
        return Extracted(tensor_model, {"kind": kind, "digest": digest_of(tensor_model.model)})
    table = request.table()
    original = original_of(model, table, name=request.name, element=request.element)
    reference = _noted(make_reference(original, table, rows_max=request.rows_max), table)
    return Extracted(reference, {"kind": kind, "digest": _digest_of_model(model, reference)})


def original_of(model: Any, table: Table, *, name: str, element: int | None) -> Original:
    """The parts and answers of a Booster, estimator, pipeline or module, by the package of its class."""
    package = attribution.trained_by(model, ("lightgbm", "xgboost", "sklearn", "torch"))
    if package is None:
        raise InvalidInputError(
            f"a {type(model).__module__}.{type(model).__qualname__} is not a supported model",
            next_step=f"supported: {CAN_BE_READ}",
        )
    # Imported on demand, like the packages themselves.
    source = importlib.import_module(f"flyball.models.convert.from_{package}")
    original: Original = source.original(model, table, name=name, element=element)
    return original


def from_code(named: str, request: Request) -> Extracted:
    """Extract the model that `module:callable` returns; modules are searched from the current folder."""
    module, _, name = named.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        make = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InvalidInputError(
            f"cannot find {named}: {error}", next_step="name a function of an importable module:  models:trained"
        ) from error
    finally:
        sys.path.pop(0)
    return from_memory(make(), request)


def from_file(path: Path, request: Request) -> Extracted:
    """Extract a model from its file."""
    kind = kind_of(path)
    refuse_cut_off(path, kind)
    origin = {"kind": kind, "path": path.name, "digest": digest_of(path.read_bytes())}
    if kind == "onnx":
        return Extracted(_of_onnx(path, request), origin)
    if is_arrays(request.data):
        raise UsageError(
            f"{path} is compared on rows of columns, but --data has arrays",
            next_step="--data rows.csv   or, for a model over other tensors, name a function that loads it:"
            "  flyball convert MODULE:FUNCTION --data arrays.npz",
        )
    if kind in RUNS_CODE and not request.trust_pickle:
        raise UsageError(
            f"{path} is {'a pickle' if kind == 'pickle' else 'a PyTorch file'}, which can run arbitrary code when it is"
            " loaded",
            code="pickle_untrusted",
            next_step="if you trust its author:  --trust-pickle   (loaded without network, in a separate process)",
        )
    from flyball.models.convert.loader import load_in_process

    table = request.table()
    reference = load_in_process(path, kind, table, name=request.name, element=request.element, rows_max=request.rows_max)
    if kind == "pickle":
        origin["kind"] = f"pickle of {reference.parts.kind}"
    return Extracted(_noted(reference, table), origin)


def _of_onnx(path: Path, request: Request) -> Reference | TensorModel:
    from flyball.models.convert import from_onnx, tensor_model

    read = from_onnx.read_onnx(path)
    source = from_onnx.source_model(path, read)
    model = from_onnx.loaded(read, request.name)
    if request.data is None or is_arrays(request.data) or not model.is_table:
        return tensor_model.onnx_tensor_model(model, source, request.data)
    table = request.table()
    original = from_onnx.original(model, source, table, name=request.name, element=request.element)
    return _noted(make_reference(original, table, rows_max=request.rows_max), table)


def _noted(reference: Reference, table: Table) -> Reference:
    if table.infinite:
        note = f"skipped {table.infinite} rows with an infinite number, which no request can contain"
        reference.parts.notes.append(note)
    return reference


def _digest_of_model(model: Any, reference: Reference) -> str:
    """The digest of a model in memory: of its pickle, or of its answers if it cannot be pickled."""
    try:
        return digest_of(pickle.dumps(model))
    except Exception:
        # Any part of a pipeline may refuse pickling with its own error; the digest of the answers will do.
        return digest_of(reference.expected.tobytes())
