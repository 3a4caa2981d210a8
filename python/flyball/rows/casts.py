"""Values as NumPy arrays of one type, without loss: a value that does not fit is an error that names it and its place.

Missing values (None, NaN, NaT, pandas.NA) become NaN in floats; other types have no missing value. Must not know models.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.errors import InvalidInputError

if TYPE_CHECKING:
    from flyball.rows.tensors import Array

_RAGGED = "rows have different lengths; give each the same number of values"
_WORDS = {"true": True, "false": False, "1": True, "0": False}


def is_missing(value: object) -> bool:
    """Whether a cell has no value: None, NaN, NaT or pandas.NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # pandas.NA cannot be compared: it has no truth value
        return True
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    return isinstance(value, float | np.floating | Decimal) and math.isnan(value)


def plain_array(value: object) -> Array:
    """Numbers as an array of numbers, anything else as an array of objects."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value
    try:
        array = np.asarray(value)
        if array.dtype.kind in "OUS":
            # NumPy makes text of a list that has one text; and it joins neither lists nor arrays in an object array.
            array = np.asarray(value, dtype=object)
            if array.size and isinstance(array.flat[0], list | tuple | np.ndarray):
                array = np.asarray([plain_array(item) for item in array.tolist()])
    except ValueError as error:
        raise InvalidInputError(_RAGGED) from error
    if array.dtype == object and any(isinstance(item, list | tuple) for item in array.flat):
        raise InvalidInputError(_RAGGED)
    return array


def texts(array: Array) -> Array:
    """An array of texts; raises for numbers and missing values."""
    if array.dtype.kind not in "OUS":
        raise InvalidInputError(f"cannot convert the values to BYTES: {array.dtype} is not text")
    if array.dtype == object:
        gone = next((index for index, item in enumerate(array.flat) if is_missing(item)), None)
        if gone is not None:
            raise _unfit("BYTES", "a missing value", array, gone, "a text")
    return array


def cast(array: Array, datatype: str, dtype: np.dtype[Any]) -> Array:
    """The array with the dtype of a V2 datatype. Floats may be rounded; nothing else may change a value."""
    if array.dtype.newbyteorder("=") == dtype:
        return array
    if array.dtype.name == "bfloat16":
        array = array.astype(np.float32)
    if array.dtype.kind in "OUS":
        array = _numbers(array, datatype, dtype)
    if array.dtype.kind not in "biuf":
        raise InvalidInputError(f"cannot convert the values to {datatype}: {array.dtype} is not a number")
    with np.errstate(all="ignore"):
        made = array.astype(dtype)
    lost = np.isinf(made) & np.isfinite(array) if dtype.kind == "f" else made != array
    if lost.any():
        index = int(np.flatnonzero(lost)[0])
        value = array.flat[index].item()
        raise _unfit(datatype, "a missing value" if is_missing(value) else repr(value), array, index, _allowed(dtype))
    return made


def _numbers(array: Array, datatype: str, dtype: np.dtype[Any]) -> Array:
    """Objects and texts as an array of numbers."""
    if dtype.kind == "f" and array.dtype == object:
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            pass  # the loop below handles pandas.NA, and names a value that is no number
    made = []
    for index, item in enumerate(array.flat):
        try:
            made.append(_number(item, dtype))
        except (TypeError, ValueError, OverflowError) as error:
            value = "a missing value" if is_missing(item) else repr(item)
            raise _unfit(datatype, value, array, index, _allowed(dtype)) from error
    try:
        return np.array(made, dtype=np.float64 if dtype.kind == "f" else dtype).reshape(array.shape)
    except OverflowError as error:
        raise InvalidInputError(f"cannot convert the values to {datatype}: {error}") from error


def _number(item: Any, dtype: np.dtype[Any]) -> float | int:
    if dtype.kind == "f":
        return float("nan") if is_missing(item) else float(item)
    if isinstance(item, str | bytes):
        text = item if isinstance(item, str) else item.decode()
        try:
            return _WORDS[text.strip().lower()] if dtype.kind == "b" else int(text)
        except KeyError as error:
            raise ValueError(text) from error
    whole = int(item)
    if whole != item or (dtype.kind == "b" and whole not in (0, 1)):
        raise ValueError(item)
    return whole


def _allowed(dtype: np.dtype[Any]) -> str:
    if dtype.kind == "f":
        return f"a number up to {np.finfo(dtype).max:g}"
    if dtype.kind == "b":
        return "true or false, 1 or 0"
    return f"a whole number from {np.iinfo(dtype).min} to {np.iinfo(dtype).max}"


def _unfit(datatype: str, value: str, array: Array, index: int, allowed: str) -> InvalidInputError:
    place = [int(part) for part in np.unravel_index(index, array.shape)]
    at = f"row {place[0]}" if len(place) == 1 else str(place)
    return InvalidInputError(f"cannot convert the values to {datatype}: {value} at {at}; allowed: {allowed}")
