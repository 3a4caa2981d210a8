"""Optional packages for conversion: imported on demand, reported with the extra that installs them.

Must not know models.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flyball.errors import needing

OPSET = 17
"""Old enough for every supported runtime, new enough for all operators of the converters."""

_DISTRIBUTIONS = {"sklearn": ("scikit-learn",), "xgboost": ("xgboost", "xgboost-cpu")}


def needed(name: str, extra: str) -> Any:
    """Import a package, or fail with the command that installs it."""
    with needing(f"converting this model needs {name.partition('.')[0]}", extra=extra), quietly():
        return importlib.import_module(name)


def versions(*names: str) -> dict[str, str]:
    """The installed versions of these packages."""
    found = {}
    for name in names:
        for distribution in _DISTRIBUTIONS.get(name, (name,)):
            try:
                found[name] = importlib.metadata.version(distribution)
            except importlib.metadata.PackageNotFoundError:
                continue
    return found


@contextmanager
def quietly() -> Iterator[None]:
    """Hide the converters' own deprecation warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
