"""The base of all documents about compared models."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Document(BaseModel):
    """A document that cannot be changed; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")
