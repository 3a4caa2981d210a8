"""A check of options that are numbers: the ranges of the command line let NaN and infinity through.

Must not know what the numbers are for.
"""

from __future__ import annotations

import math

import typer


def finite(value: float | list[float] | None) -> float | list[float] | None:
    """The same, where all of it is finite."""
    for number in value if isinstance(value, list | tuple) else [value]:
        if number is not None and not math.isfinite(number):
            raise typer.BadParameter(f"{number} is no finite number")
    return value
