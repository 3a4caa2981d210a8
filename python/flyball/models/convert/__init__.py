"""Trained models turned into folders that serve them with equal answers: ONNX, what explains it, a decision, the proof.

    flyball.convert.convert(pipeline, data=rows, out="fraud")

Names are imported when first used. Must not know the registry or the command line; packages that trained a model are
imported where one of theirs is converted, and nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flyball.models.convert.compare import Judged
    from flyball.models.convert.conversion import Converted, convert
    from flyball.models.convert.draft import Terms

__all__ = ["Converted", "Judged", "Terms", "convert"]
_HOMES = {"Converted": "conversion", "Judged": "compare", "Terms": "draft", "convert": "conversion"}


def __getattr__(name: str) -> Any:
    import importlib

    if name in _HOMES:
        return getattr(importlib.import_module(f"flyball.models.convert.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'flyball.models.convert' has no attribute {name!r}")
