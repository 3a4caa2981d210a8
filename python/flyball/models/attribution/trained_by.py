"""Detects which package trained a model from its class, without importing the package.

Must not know what is made of the model.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any


def trained_by(model: Any, packages: Container[str]) -> str | None:
    """The package that the model's class or its nearest base class comes from."""
    roots = (kind.__module__.partition(".")[0] for kind in type(model).__mro__)
    return next((root for root in roots if root in packages), None)
