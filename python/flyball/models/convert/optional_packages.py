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

from flyball.errors import MissingExtraError

OPSET = 17
"""Old enough for every supported runtime, new enough for all operators of the converters."""

_DISTRIBUTIONS = {"sklearn": ("scikit-learn",), "xgboost": ("xgboost", "xgboost-cpu")}


def needed(name: str, extra: str) -> Any:
    """Import a package, or fail with the command that installs it."""
    try:
        with quietly():
            return importlib.import_module(name)
    except ImportError as error:
        raise missing(name.partition(".")[0], extra, error) from error


def missing(package: str, extra: str, error: ImportError) -> MissingExtraError:
    """The error for a package that is not installed."""
    return MissingExtraError(
        f"converting this model needs {package} ({error})", next_step=f"install it:  pip install 'flyball[{extra}]'"
    )


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
