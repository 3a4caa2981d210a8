"""Seeded requests for a model with ONNX Runtime's answers, as JSONL for the load generator.

Rows come from the model's maker, its signature, or a file, and repeat only when the source is exhausted. Floats have the
fewest digits that round-trip, as servers write them.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.client.metadata import TensorMetadata
from flyball.errors import ModelRefusedError, RefusedError, UsageError
from flyball.rows.rows_file import Untyped
from flyball.rows.tensors import Array, as_array, datatype_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from flyball.bench.scenario import MakerName, ModelSource, PayloadSource
    from flyball.rows.rows_file import Record

    Inputs = Sequence[TensorMetadata]
    Row = dict[str, Array]
    Note = Callable[[str], None]
    Progress = Callable[[int, int], None]

_INTEGERS = [f"{sign}int{bits}" for sign in ("u", "") for bits in (8, 16, 32, 64)]
_DATATYPES = {f"tensor({name})": name.upper() for name in ("bool", *_INTEGERS)} | {
    "tensor(float16)": "FP16",
    "tensor(float)": "FP32",
    "tensor(double)": "FP64",
    "tensor(string)": "BYTES",
}
_BYTES_MAX = 256 * 1024 * 1024  # the generator keeps every parsed number, at many times its text length
_TRIES = 50
_DECIDED = '"outcome":'


def one_thread_session(path: Path) -> Any:
    """An ONNX Runtime session as this project runs them: one thread, no spinning."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3  # some converted models warn in every run
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's errors have no common base
        raise ModelRefusedError(f"ONNX Runtime cannot load {path}: {error}") from error


def payloads_for(
    source: PayloadSource,
    model: Path,
    wanted: ModelSource,
    *,
    note: Note | None = None,
    progress: Progress | None = None,
) -> bytes:
    """Payloads for a local model. `note` receives notes for the reader, `progress` the counts done and total."""
    session = one_thread_session(model)
    rows = _rows(source, signature_of(session), wanted.make, note)
    return _written(rows, source.count, session if source.check else None, note, progress)


def payloads_for_server(
    source: PayloadSource,
    url: str,
    model: str,
    *,
    maker: MakerName | None = None,
    note: Note | None = None,
    progress: Progress | None = None,
) -> bytes:
    """Payloads for a remote model, from the server's metadata and without expected answers."""
    from flyball.client import Client

    with Client(url) as client:
        inputs = client.metadata(model).inputs
    if not inputs:
        raise ModelRefusedError(f"{url} reports no inputs for the model {model!r}, so no payload can be made")
    return _written(_rows(source, inputs, maker, note), source.count, None, note, progress)


def payloads_for_decision(source: PayloadSource) -> bytes:
    """Rows of a file as one-row requests for decisions; a correct answer has an outcome."""
    from flyball.bench.row_tensors import drawn

    lines = drawn(Path(source.file or ""), source.count, source.seed, _decision_request)
    return ("\n".join(lines) + "\n").encode()


def _decision_request(record: Record) -> str:
    if any(isinstance(cell, Untyped) for cell in record.cells.values()):
        raise RefusedError(
            f"{record.at}: CSV does not distinguish numbers from text, but a decision's fields are typed",
            code="payloads_refused",
            next_step="use a JSON Lines or Parquet file",
        )
    try:
        return json.dumps({"body": {"input": record.cells}, "holds": _DECIDED}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise RefusedError(f"{record.at} has a cell that JSON cannot encode: {error}", code="payloads_refused") from error


def make_payloads(
    path: Path, count: int, seed: int, *, rows: Callable[[int], Array] | None = None, check: bool = True
) -> bytes:
    """JSONL of `count` one-row requests. `rows(count)` yields the rows of a single-input model."""
    session = one_thread_session(path)
    inputs = signature_of(session)
    if rows is None:
        made = made_up(inputs, count, seed)
    else:
        given = rows(count)
        made = _of_only_input(inputs, (given[index : index + 1] for index in range(count)))
    return _written(made, count, session if check else None)


def signature_of(session: Any) -> list[TensorMetadata]:
    """A model's inputs as server metadata."""
    inputs = []
    for spec in session.get_inputs():
        if spec.type not in _DATATYPES:
            raise ModelRefusedError(f"input {spec.name!r} has type {spec.type}, which payloads do not support")
        shape = tuple(size if isinstance(size, int) and size > 0 else -1 for size in spec.shape)
        inputs.append(TensorMetadata(spec.name, _DATATYPES[spec.type], shape))
    return inputs


def made_up(inputs: Inputs, count: int, seed: int, note: Note | None = None) -> Iterator[Row]:
    """Random rows for a signature, distinct while possible; free dimensions have size 1."""
    random = np.random.default_rng(seed)
    seen: set[bytes] = set()
    tries = _TRIES
    for _ in range(count):
        for _ in range(tries):
            row = {spec.name: _made_up(spec, random) for spec in inputs}
            mark = hashlib.sha256(b"".join(_mark(array) for array in row.values())).digest()
            if mark not in seen:
                break
        else:
            tries = 1
        seen.add(mark)
        yield row
    if len(seen) < count and note:
        note(f"only {len(seen):,} of {count:,} payloads are distinct: the signature allows few values")


def tensor_document(name: str, array: Array) -> dict[str, Any]:
    """A V2 JSON tensor with flat data."""
    flat = array.ravel()
    data = [float(str(item)) for item in flat] if array.dtype in (np.float32, np.float16) else flat.tolist()
    return {"name": name, "datatype": datatype_of(name, array), "shape": list(array.shape), "data": data}


def _rows(source: PayloadSource, inputs: Inputs, maker: MakerName | None, note: Note | None) -> Iterable[Row]:
    match source.source:
        case "signature":
            return made_up(inputs, source.count, source.seed, note)
        case "maker":
            if maker is None:
                raise UsageError("payloads.source is maker, but the model has no maker", next_step="set source: signature")
            from flyball.bench.models.make import maker_rows

            return _of_only_input(inputs, maker_rows(maker, source.count, source.seed))
        case "file":
            from flyball.bench.row_tensors import rows_from_file

            return rows_from_file(Path(source.file or ""), inputs, source.count, source.seed, note)


def _of_only_input(inputs: Inputs, arrays: Iterable[Array]) -> Iterator[Row]:
    if len(inputs) != 1:
        names = ", ".join(spec.name for spec in inputs)
        raise ModelRefusedError(f"the model has {len(inputs)} inputs ({names}); rows are supported for one only")
    return ({inputs[0].name: array} for array in arrays)


def _written(
    rows: Iterable[Row], count: int, session: Any | None, note: Note | None = None, progress: Progress | None = None
) -> bytes:
    """The lines of all rows, with the session's answers."""
    lines: list[str] = []
    size = 0
    if session is None and note:
        note("answers are not checked")
    for done, row in enumerate(rows, start=1):
        document: dict[str, Any] = {"inputs": [tensor_document(name, array) for name, array in row.items()]}
        document["outputs"] = _expected(session, row, done) if session is not None else None
        try:
            lines.append(json.dumps(document, separators=(",", ":"), allow_nan=False))
        except ValueError as error:
            raise RefusedError(
                f"payload {done} or its answer has a non-finite number, which JSON cannot encode",
                next_step="disable the check of answers:  check: false",
            ) from error
        size += len(lines[-1])
        if size > _BYTES_MAX:
            raise RefusedError(f"the first {done} payloads already have {size >> 20} MiB", next_step="lower payloads.count")
        if progress:
            progress(done, count)
    return ("\n".join(lines) + "\n").encode()


def _expected(session: Any, row: Row, number: int) -> list[dict[str, Any]]:
    names = [output.name for output in session.get_outputs()]
    try:
        arrays = session.run(None, row)
    except Exception as error:  # ONNX Runtime's errors have no common base
        raise RefusedError(f"the model fails on payload {number}: {error}") from error
    return [tensor_document(name, array) for name, array in zip(names, arrays, strict=True)]


def _mark(array: Array) -> bytes:
    return repr(array.tolist()).encode() if array.dtype.hasobject else array.tobytes()


def _made_up(spec: TensorMetadata, random: np.random.Generator) -> Array:
    shape = [max(size, 1) for size in spec.shape]
    if spec.datatype == "BYTES":
        return random.choice(np.array(["a", "b", "c", "d"], dtype=object), shape)
    if spec.datatype not in _DATATYPES.values():
        raise ModelRefusedError(f"input {spec.name!r} has datatype {spec.datatype}, which payloads do not support")
    dtype = as_array([], spec.datatype).dtype
    if dtype.kind == "f":
        return random.standard_normal(shape).astype(dtype)
    # Bytes are pixels. For other integers, every vocabulary and category has zero and one.
    return random.integers(0, 256 if spec.datatype == "UINT8" else 2, shape).astype(dtype)
