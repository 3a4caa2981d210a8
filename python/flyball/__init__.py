"""flyball: serve ONNX models as governed decisions.

The public names, imported on first use: `import flyball` alone is cheap, so that `flyball serve` starts fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flyball.client import AsyncClient, Client, Decided, DecidedRow, DecidedRows, ModelMetadata
    from flyball.decision.decision import Decision
    from flyball.decision.fit.sklearn_steps import from_sklearn
    from flyball.decision.serve import serve
    from flyball.decision.spec.faults import DecisionRefusedError
    from flyball.decision.spec.spec import SLO
    from flyball.decision.training.training_rows import training_rows
    from flyball.errors import (
        ConfigRefusedError,
        DeadlineError,
        Fault,
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
    from flyball.models import convert

    __version__: str

__all__ = [
    "SLO",
    "AsyncClient",
    "Client",
    "ConfigRefusedError",
    "DeadlineError",
    "Decided",
    "DecidedRow",
    "DecidedRows",
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
    "from_sklearn",
    "serve",
    "training_rows",
]
# Where the names live that are not errors.
_HOMES = {
    **dict.fromkeys(("AsyncClient", "Client", "Decided", "DecidedRow", "DecidedRows", "ModelMetadata"), "flyball.client"),
    "Decision": "flyball.decision.decision",
    "DecisionRefusedError": "flyball.decision.spec.faults",
    "SLO": "flyball.decision.spec.spec",
    "from_sklearn": "flyball.decision.fit.sklearn_steps",
    "serve": "flyball.decision.serve",
    "training_rows": "flyball.decision.training.training_rows",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("flyball")
    if name == "convert":
        return importlib.import_module("flyball.models.convert")
    if name in __all__:
        return getattr(importlib.import_module(_HOMES.get(name, "flyball.errors")), name)
    raise AttributeError(f"module 'flyball' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
