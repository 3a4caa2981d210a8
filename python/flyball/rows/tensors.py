"""NumPy arrays to V2 tensors and back: datatype names, raw little-endian bytes, and plain JSON data.

Strings are BYTES: a u32 length and bytes per element; they are decoded to `str` in object arrays, as in ONNX Runtime, with
invalid UTF-8 kept by surrogateescape. BF16, which NumPy lacks, is widened to float32. Must not know HTTP or gRPC.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from flyball.errors import InvalidInputError, ServerFaultError
from flyball.rows.casts import cast, plain_array, texts

Array = np.ndarray[Any, np.dtype[Any]]

_DTYPES = {
    "BOOL": "|b1",
    "UINT8": "|u1",
    "UINT16": "<u2",
    "UINT32": "<u4",
    "UINT64": "<u8",
    "INT8": "|i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "FP16": "<f2",
    "FP32": "<f4",
    "FP64": "<f8",
}
_DATATYPES = {np.dtype(code).newbyteorder("="): name for name, code in _DTYPES.items()}
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named tensor in wire form: `raw` in the protocol's byte order."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    raw: bytes


@dataclass(frozen=True, slots=True)
class InferCall:
    """One inference request, for either transport."""

    model: str
    version: str | None
    tensors: list[Tensor]
    outputs: list[str] | None
    id: str | None


def encode(name: str, array: Array) -> Tensor:
    """An array in wire form."""
    datatype = datatype_of(name, array)
    if datatype == "BYTES":
        raw = _pack_strings(name, array)
    elif datatype == "BF16":
        raw = np.ascontiguousarray(array).view(np.uint16).astype("<u2", copy=False).tobytes()
    else:
        raw = array.astype(_DTYPES[datatype], copy=False).tobytes()
    return Tensor(name, datatype, array.shape, raw)


def decode(tensor: Tensor) -> Array:
    """The array in a server's raw bytes."""
    count = _elements(tensor)
    if tensor.datatype == "BYTES":
        return _array_of_strings(_unpack_strings(tensor, count), tensor.shape)
    code = "<u2" if tensor.datatype == "BF16" else _dtype(tensor)
    if len(tensor.raw) != count * np.dtype(code).itemsize:
        raise _broken(tensor, f"{len(tensor.raw)} bytes do not fill the shape {list(tensor.shape)}")
    array = np.frombuffer(tensor.raw, code).reshape(tensor.shape)
    if tensor.datatype == "BF16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    # A copy: frombuffer's array is read-only, and would keep the whole answer alive.
    return array.astype(array.dtype.newbyteorder("="))


def decode_data(name: str, datatype: str, shape: tuple[int, ...], data: Any) -> Array:
    """The array in JSON `data`, nested or flat."""
    tensor = Tensor(name, datatype, shape, b"")
    try:
        if datatype == "BYTES":
            return _array_of_strings(_flat(data), shape)
        return np.asarray(data, _dtype(tensor)).reshape(shape).astype(np.dtype(_dtype(tensor)).newbyteorder("="))
    except (ValueError, TypeError, OverflowError) as error:
        raise _broken(tensor, str(error)) from error


def as_array(value: object, datatype: str) -> Array:
    """Plain data or an array as an array of the model's datatype; raises rather than change a value."""
    array = plain_array(value)
    if datatype == "BYTES":
        return texts(array)
    if datatype in _DTYPES:
        return cast(array, datatype, np.dtype(_DTYPES[datatype]).newbyteorder("="))
    if isinstance(value, np.ndarray):
        return value
    raise InvalidInputError(f"cannot convert a list to {datatype}; pass a NumPy array")


def datatype_of(name: str, array: Array) -> str:
    """The V2 datatype of an array."""
    if array.dtype.kind in "OUS":
        return "BYTES"
    if array.dtype.name == "bfloat16":  # ml_dtypes' type, which frameworks register with NumPy
        return "BF16"
    datatype = _DATATYPES.get(array.dtype.newbyteorder("="))
    if datatype is None:
        raise InvalidInputError(
            f"input {name!r} has dtype {array.dtype}, which the protocol does not support",
            next_step=f"convert it to one of {', '.join(str(dtype) for dtype in _DATATYPES)}, or to strings",
        )
    return datatype


def _pack_strings(name: str, array: Array) -> bytes:
    parts: list[bytes] = []
    for item in array.ravel().tolist():
        if isinstance(item, str):
            text = item.encode("utf-8", "surrogateescape")
        elif isinstance(item, bytes):
            text = item
        else:
            found = f"input {name!r} is an object array with a {type(item).__name__} in it"
            raise InvalidInputError(f"{found}; only str and bytes are supported")
        parts += (_LENGTH.pack(len(text)), text)
    return b"".join(parts)


def _unpack_strings(tensor: Tensor, count: int) -> list[str]:
    texts, offset, raw = [], 0, tensor.raw
    while offset < len(raw):
        end = offset + _LENGTH.size
        if end > len(raw):
            raise _broken(tensor, "a string's length is truncated")
        (length,) = _LENGTH.unpack_from(raw, offset)
        offset = end + length
        if offset > len(raw):
            raise _broken(tensor, "a string is truncated")
        texts.append(raw[end:offset].decode("utf-8", "surrogateescape"))
    if len(texts) != count:
        raise _broken(tensor, f"{len(texts)} strings do not fill the shape {list(tensor.shape)}")
    return texts


def _array_of_strings(texts: list[Any], shape: tuple[int, ...]) -> Array:
    # Filled by slice: np.array(texts, dtype=object) would infer the shape from the values.
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array.reshape(shape)


def _flat(data: Any) -> list[Any]:
    if not isinstance(data, list):
        return [data]
    return [leaf for item in data for leaf in (_flat(item) if isinstance(item, list) else [item])]


def _elements(tensor: Tensor) -> int:
    if any(size < 0 for size in tensor.shape):
        raise _broken(tensor, f"the shape {list(tensor.shape)} is invalid")
    return math.prod(tensor.shape)


def _dtype(tensor: Tensor) -> str:
    try:
        return _DTYPES[tensor.datatype]
    except KeyError:
        raise _broken(tensor, f"the datatype {tensor.datatype!r} is unknown") from None


def _broken(tensor: Tensor, why: str) -> ServerFaultError:
    return ServerFaultError(f"cannot read the server's output {tensor.name!r}: {why}", code="bad_answer")
