"""The base of all documents that the extension returns."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Answer(BaseModel):
    """A document from the extension."""

    # Extra keys are ignored: an extension built from a newer commit may send more.
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)
