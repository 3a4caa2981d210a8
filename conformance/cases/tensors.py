"""Arrays that the cases send, compared bit for bit with the replies. NumPy only."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

A = np.arange(16, dtype=np.int32).reshape(1, 16)
B = np.ones((1, 16), np.int32)
NUMBERS = {
    "BOOL": np.array([[True, False, True]]),
    "UINT8": np.array([[0, 1, 255]], np.uint8),
    "UINT16": np.array([[0, 1, 65535]], np.uint16),
    "UINT32": np.array([[0, 1, 2**32 - 1]], np.uint32),
    "UINT64": np.array([[0, 2**53 + 1, 2**64 - 1]], np.uint64),
    "INT8": np.array([[-128, 0, 127]], np.int8),
    "INT16": np.array([[-32768, 0, 32767]], np.int16),
    "INT32": np.array([[-(2**31), 0, 2**31 - 1]], np.int32),
    "INT64": np.array([[-(2**63), 2**53 + 1, 2**63 - 1]], np.int64),
    "FP16": np.array([[0.5, -65504.0, 6e-8]], np.float16),
    "FP32": np.array([[0.1, -3.4e38, 1e-45]], np.float32),
    "FP64": np.array([[0.1, -1.7e308, 5e-324]], np.float64),
}
WORDS = np.array([["", "red", "grün ↔ 🦊", "a\nb"]], object)
SCORES = np.array([[0.1, 0.9, 0.2, 0.8, 0.3, 0.7, 0.4, 0.6]], np.float32)
BEST = ["0.900000:1:kind-1", "0.800000:3:kind-3", "0.700000:5:kind-5"]


def encoded(words: Array) -> Array:
    """Strings as the bytes that travel."""
    items = [word.encode() if isinstance(word, str) else word for word in words.ravel()]
    return np.array(items, object).reshape(words.shape)


def same(got: Array | None, wanted: Array) -> None:
    """Fail unless type, shape and bits are the same."""
    assert got is not None, "no such output"
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), f"{got.dtype} {got.shape}"
    if wanted.dtype == np.object_:
        assert encoded(got).tolist() == encoded(wanted).tolist(), f"{got.tolist()}"
    else:
        assert got.tobytes() == wanted.tobytes(), f"{got.tolist()}"


def added(got: tuple[Array | None, Array | None], a: Array = A, b: Array = B) -> None:
    """Fail unless these are sum and difference."""
    same(got[0], a + b)
    same(got[1], a - b)


def as_words(numbers: Array) -> Array:
    """Numbers written out, as the string model takes them."""
    return np.array([str(number).encode() for number in numbers.ravel()], object).reshape(numbers.shape)
