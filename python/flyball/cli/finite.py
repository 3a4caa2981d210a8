"""A check of numeric options: typer's ranges let NaN and infinity through.

Must not know what the numbers are for.
"""

from __future__ import annotations

import math

import typer


def finite(value: float | list[float] | None) -> float | list[float] | None:
    """Return the value; raises if a number in it is not finite."""
    for number in value if isinstance(value, list | tuple) else [value]:
        if number is not None and not math.isfinite(number):
            raise typer.BadParameter(f"{number} is not a finite number")
    return value
