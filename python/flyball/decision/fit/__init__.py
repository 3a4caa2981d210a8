"""Fitted parameters of transforms: learnt from rows, or converted from a fitted scikit-learn pipeline.

Works on plain values; must not know how a decision is written or served. Names are imported on first use: a server
only reads fitted files, and does not need NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flyball.decision.fit.columns import Column, Columns, apply
    from flyball.decision.fit.fitted import Fitted, read_fitted
    from flyball.decision.fit.learn import complete, fit_transforms, is_open
    from flyball.decision.fit.sklearn_steps import Translated, from_sklearn

__all__ = [
    "Column",
    "Columns",
    "Fitted",
    "Translated",
    "apply",
    "complete",
    "fit_transforms",
    "from_sklearn",
    "is_open",
    "read_fitted",
]
_MODULES = {
    "columns": ("Column", "Columns", "apply"),
    "fitted": ("Fitted", "read_fitted"),
    "learn": ("complete", "fit_transforms", "is_open"),
    "sklearn_steps": ("Translated", "from_sklearn"),
}


def __getattr__(name: str) -> Any:
    import importlib

    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"flyball.decision.fit.{module}"), name)
    raise AttributeError(f"module 'flyball.decision.fit' has no attribute {name!r}")
