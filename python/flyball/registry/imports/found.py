"""A model found elsewhere, and its registration. Must not know where models come from."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flyball.documents.names import is_name
from flyball.errors import UsageError
from flyball.registry.packages.meta import Card, Lineage
from flyball.registry.packages.pack import Contents, pack

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flyball.registry.acts.interface import Acting, Actor
    from flyball.registry.views import ReceiptView

_NAME_CHARACTERS_MAX = 128
_NOTES_CHARACTERS_MAX = 4096


@dataclass(frozen=True, slots=True)
class Found:
    """One model file with its metadata."""

    name: str
    """Its name at the source."""
    model: Path
    source: str
    """Its origin, as text."""
    data: str | None = None
    code: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, float | int | str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """Differences between its description and the model, and what was not imported."""


def sanitised(name: str) -> str:
    """A valid registry name; other characters become dashes. Never a path."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:_NAME_CHARACTERS_MAX]
    if not is_name(plain):
        raise UsageError(f"{name[:100]!r} cannot be a name here", next_step="give it one:  --name NAME")
    return plain


def take(
    found: Found, registry: Acting, *, actor: Actor, card: Card, name: str | None = None, reason: str = ""
) -> ReceiptView:
    """Register a model as the next version of its name; its origin is signed with it."""
    called = name or sanitised(found.name)
    contents = Contents(
        name=called,
        author=actor.name,
        model=found.model,
        card=card,
        metrics=found.metrics,
        lineage=Lineage(source=found.source, data=found.data, code=found.code, parameters=dict(found.parameters)),
        notes="\n".join(found.notes)[:_NOTES_CHARACTERS_MAX],
    )
    with tempfile.TemporaryDirectory(prefix="flyball-import-") as made:
        pack(contents, Path(made, "package"))
        return registry.register(Path(made, "package"), called, actor=actor, reason=reason)
