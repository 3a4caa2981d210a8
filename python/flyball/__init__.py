"""flyball: serve ONNX models as governed decisions.

The public names, imported when first used: `import flyball` alone costs nothing, so that `flyball serve` starts fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flyball import convert
    from flyball.client import Client, Decided, DecidedRow, ModelMetadata
    from flyball.errors import (
        ConfigRefusedError,
        DeadlineError,
        FlyballError,
        ForbiddenError,
        InvalidInputError,
        KeyConflictError,
        MissingExtraError,
        ModelRefusedError,
        NotFoundError,
        OverloadedError,
        RefusedError,
        ServerFaultError,
        SignatureError,
        SnapshotRefusedError,
        UnauthenticatedError,
        UnavailableError,
        UnreachableError,
        UsageError,
    )
    from flyball.faults import Fault
    from flyball.spec import SLO, Decision, DecisionRefusedError
    from flyball.spec.fitting import training_rows

    __version__: str

__all__ = [
    "SLO",
    "Client",
    "ConfigRefusedError",
    "DeadlineError",
    "Decided",
    "DecidedRow",
    "Decision",
    "DecisionRefusedError",
    "Fault",
    "FlyballError",
    "ForbiddenError",
    "InvalidInputError",
    "KeyConflictError",
    "MissingExtraError",
    "ModelMetadata",
    "ModelRefusedError",
    "NotFoundError",
    "OverloadedError",
    "RefusedError",
    "ServerFaultError",
    "SignatureError",
    "SnapshotRefusedError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnreachableError",
    "UsageError",
    "__version__",
    "convert",
    "training_rows",
]


def __getattr__(name: str) -> Any:
    import importlib

    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("flyball")
    if name in ("SLO", "Decision", "DecisionRefusedError"):
        return getattr(importlib.import_module("flyball.spec"), name)
    if name in ("Client", "Decided", "DecidedRow", "ModelMetadata"):
        return getattr(importlib.import_module("flyball.client"), name)
    if name == "training_rows":
        return importlib.import_module("flyball.spec.fitting").training_rows
    if name == "convert":
        return importlib.import_module("flyball.convert")
    if name == "Fault":
        return importlib.import_module("flyball.faults").Fault
    if name in __all__:
        return getattr(importlib.import_module("flyball.errors"), name)
    raise AttributeError(f"module 'flyball' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
