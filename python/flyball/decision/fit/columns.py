"""Transforms over columns in NumPy, so that fitting sees the inputs of later steps.

Numbers are float64 with NaN for missing, text is object with None, times are datetime64[ns] with NaT. The arithmetic is
that of the Rust code, operation by operation. Must not know files, specs or models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyball.decision.fit.murmur import murmur3_32
from flyball.errors import InvalidInputError

Column = NDArray[Any]
Columns = dict[str, Column]


def is_text(column: Column) -> bool:
    """Whether a column has text."""
    return column.dtype == object


def is_time(column: Column) -> bool:
    """Whether a column has times."""
    return column.dtype.kind == "M"


def numbers(name: str, column: Column) -> NDArray[np.float64]:
    """The column as numbers; raises if it has text or times."""
    if is_text(column) or is_time(column):
        found = "text" if is_text(column) else "times"
        raise InvalidInputError(f"column {name!r} has {found}, but this transform needs numbers")
    return column.astype(np.float64, copy=False)


def texts(name: str, column: Column) -> Column:
    """The column as text; raises if it has something else."""
    if not is_text(column):
        raise InvalidInputError(f"column {name!r} has no text, which this transform needs", next_step="cast it to text")
    return column


def apply(transform: Mapping[str, Any], columns: Columns) -> Columns:
    """Apply one transform with all its parameters; new columns replace the old ones in place."""
    of: list[str] = transform["of"]
    if unknown := [name for name in of if name not in columns]:
        raise InvalidInputError(f"{transform['op']}: no column {unknown[0]!r}", next_step=f"columns: {', '.join(columns)}")
    if transform["op"] == "cross":
        return {**columns, transform["into"]: _crossed(of, columns)}
    make = _OPS[transform["op"]]
    made: Columns = {}
    for name, column in columns.items():
        if name in of:
            made.update(make(transform, of.index(name), name, column))
        else:
            made[name] = column
    return made


def _impute(transform: Mapping[str, Any], index: int, name: str, column: Column) -> Columns:
    value = transform["values"][index]
    missing = absent(column)
    filled = column.copy()
    filled[missing] = value if is_text(column) else float(value)
    indicator = {f"{name}=missing": missing.astype(np.float64)} if transform.get("indicator") else {}
    return {name: filled, **indicator}


def absent(column: Column) -> NDArray[np.bool_]:
    """A mask of missing values."""
    if is_text(column):
        return np.array([value is None for value in column], dtype=np.bool_)
    return np.isnat(column) if is_time(column) else np.isnan(column)


def _scale(transform: Mapping[str, Any], index: int, name: str, column: Column) -> Columns:
    return {name: numbers(name, column) * transform["factor"][index] + transform["offset"][index]}


def _standardize(transform: Mapping[str, Any], index: int, name: str, column: Column) -> Columns:
    return {name: (numbers(name, column) - transform["mean"][index]) / transform["scale"][index]}


def _log(transform: Mapping[str, Any], _: int, name: str, column: Column) -> Columns:
    log = np.log1p if transform["op"] == "log1p" else np.log
    with np.errstate(divide="ignore", invalid="ignore"):
        return {name: log(numbers(name, column))}


def _clip(transform: Mapping[str, Any], _: int, name: str, column: Column) -> Columns:
    least, most = transform.get("min"), transform.get("max")
    return {name: np.clip(numbers(name, column), -np.inf if least is None else least, np.inf if most is None else most)}


def _bucket(transform: Mapping[str, Any], _: int, name: str, column: Column) -> Columns:
    values = numbers(name, column)
    counted = np.searchsorted(np.array(transform["edges"]), values, side="right").astype(np.float64)
    return {name: np.where(np.isnan(values), np.nan, counted)}


def _one_hot(transform: Mapping[str, Any], index: int, name: str, column: Column) -> Columns:
    held = texts(name, column)
    return {f"{name}={value}": (held == value).astype(np.float64) for value in transform["values"][index]}


def _ordinal(transform: Mapping[str, Any], index: int, name: str, column: Column) -> Columns:
    codes = {value: float(at) for at, value in enumerate(transform["values"][index])}
    return {name: _coded(texts(name, column), codes, float(transform["unknown"]))}


def _hash(transform: Mapping[str, Any], _: int, name: str, column: Column) -> Columns:
    buckets = transform["buckets"]
    hashed = [np.nan if text is None else float(murmur3_32(text.encode()) % buckets) for text in texts(name, column)]
    return {name: np.array(hashed, dtype=np.float64)}


def _encode(transform: Mapping[str, Any], index: int, name: str, column: Column) -> Columns:
    return {name: _coded(texts(name, column), transform["maps"][index], float(transform["default"][index]))}


def _coded(column: Column, codes: Mapping[str, float], other: float) -> NDArray[np.float64]:
    """The code of each text; missing stays missing."""
    return np.array([np.nan if text is None else codes.get(text, other) for text in column], dtype=np.float64)


def _date_parts(transform: Mapping[str, Any], _: int, name: str, column: Column) -> Columns:
    if not is_time(column):
        raise InvalidInputError(f"column {name!r} has no times, which date_parts needs")
    missing = np.isnat(column)
    return {
        f"{name}.{part}": np.where(missing, np.nan, _PARTS[part](np.where(missing, np.datetime64(0, "ns"), column)))
        for part in transform["parts"]
    }


def _cast(transform: Mapping[str, Any], _: int, name: str, column: Column) -> Columns:
    to = transform["to"]
    if to == "text":
        return {name: column if is_text(column) else _printed(numbers(name, column))}
    if is_text(column):
        values = np.array([_parsed(text) for text in column], dtype=np.float64)
    elif is_time(column):
        values = np.where(np.isnat(column), np.nan, column.astype(np.int64).astype(np.float64) / 1e9)
    else:
        values = numbers(name, column)
    if to == "int":
        return {name: np.trunc(values)}
    if to == "bool":
        return {name: np.where(np.isnan(values), np.nan, (values != 0).astype(np.float64))}
    return {name: values}


def _printed(values: NDArray[np.float64]) -> Column:
    """Whole numbers in decimal."""
    made = np.empty(len(values), dtype=object)
    made[:] = [None if np.isnan(value) else str(int(value)) for value in values]
    return made


def _parsed(text: str | None) -> float:
    """Parse a finite number, else missing; stricter than Python, which accepts underscores and spaces."""
    try:
        value = float("nan" if text is None or not text.isascii() or "_" in text or text != text.strip() else text)
    except ValueError:
        return float("nan")
    return value if np.isfinite(value) else float("nan")


def _crossed(of: list[str], columns: Columns) -> Column:
    held = [columns[name] for name in of]
    if all(is_text(column) for column in held):
        joined = [None if None in row else "|".join(row) for row in zip(*held, strict=True)]
        return np.array(joined, dtype=object)
    product = numbers(of[0], held[0])
    for name, column in zip(of[1:], held[1:], strict=True):
        product = product * numbers(name, column)
    return product


def _weekday(times: Column) -> NDArray[np.int64]:
    days = times.astype("datetime64[D]").astype(np.int64)
    return (days + 3) % 7  # 1970 began on a Thursday


_PARTS: dict[str, Callable[[Column], Column]] = {
    "year": lambda times: times.astype("datetime64[Y]").astype(np.int64) + 1970,
    "month": lambda times: times.astype("datetime64[M]").astype(np.int64) % 12 + 1,
    "day": lambda times: (times.astype("datetime64[D]") - times.astype("datetime64[M]")).astype(np.int64) + 1,
    "hour": lambda times: times.astype("datetime64[h]").astype(np.int64) % 24,
    "minute": lambda times: times.astype("datetime64[m]").astype(np.int64) % 60,
    "weekday": _weekday,
    "weekend": lambda times: (_weekday(times) >= 5).astype(np.float64),
}

_OPS: dict[str, Callable[[Mapping[str, Any], int, str, Column], Columns]] = {
    "impute": _impute,
    "cast": _cast,
    "scale": _scale,
    "standardize": _standardize,
    "log": _log,
    "log1p": _log,
    "clip": _clip,
    "bucket": _bucket,
    "one_hot": _one_hot,
    "ordinal": _ordinal,
    "hash": _hash,
    "encode": _encode,
    "date_parts": _date_parts,
}
OPS = (*_OPS, "cross")
