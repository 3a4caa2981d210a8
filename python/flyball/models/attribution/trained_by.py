"""Which package trained a model, told by its class: none of them is imported for this.

Must not know what is made of the model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Container


def trained_by(model: Any, packages: Container[str]) -> str | None:
    """The one of these packages that the model's class comes from, or the nearest of its bases that comes from one."""
    roots = (kind.__module__.partition(".")[0] for kind in type(model).__mro__)
    return next((root for root in roots if root in packages), None)
