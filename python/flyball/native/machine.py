"""How the extension was built, and what this machine allows."""

from __future__ import annotations

from flyball.native.boundary import boundary, native
from flyball.native.server_documents import BuildInfo, Machine


def build_info() -> BuildInfo:
    """How the extension was built."""
    with boundary():
        return BuildInfo.model_validate_json(native.build_info())


def machine() -> Machine:
    """What this machine allows to this process."""
    with boundary():
        return Machine.model_validate_json(native.machine())
