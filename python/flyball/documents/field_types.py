"""Field types shared by documents: names, digests, version numbers. Must not know the documents."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from flyball.documents import names
from flyball.documents.faults import Allowed

VERSION_NUMBER_MAX = 999_999_999

Name = Annotated[str, Field(pattern=names.NAME_PATTERN), Allowed(names.NAME_WORDS)]
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$"), Allowed('"sha256:" and 64 lower-case hex digits')]
VersionNumber = Annotated[int, Field(ge=1, le=VERSION_NUMBER_MAX), Allowed(f"a whole number, 1 to {VERSION_NUMBER_MAX}")]
