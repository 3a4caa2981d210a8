"""The extension's build, and the machine's limits."""

from __future__ import annotations

from flyball.native.boundary import call, native
from flyball.native.server_documents import BuildInfo, Machine


def build_info() -> BuildInfo:
    """How the extension was built."""
    return BuildInfo.model_validate_json(call(native.build_info))


def machine() -> Machine:
    """The machine's limits for this process."""
    return Machine.model_validate_json(call(native.machine))
