"""Converts trained models into folders that serve them with equal answers.

    flyball.convert.convert(pipeline, data=rows, out="fraud")

A folder has the ONNX model, its explanation, a decision and an equivalence certificate. Names are imported lazily. Must
not know the registry or the command line; training packages are imported only to convert their models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flyball.models.convert.compare import ComparisonResult
    from flyball.models.convert.conversion import Converted, convert
    from flyball.models.convert.draft import Terms

__all__ = ["ComparisonResult", "Converted", "Terms", "convert"]
_HOMES = {"Converted": "conversion", "ComparisonResult": "compare", "Terms": "draft", "convert": "conversion"}


def __getattr__(name: str) -> Any:
    import importlib

    if name in _HOMES:
        return getattr(importlib.import_module(f"flyball.models.convert.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'flyball.models.convert' has no attribute {name!r}")
