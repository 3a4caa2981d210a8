"""The Snapshot: the only contract between the planes. Models, checks, the compiler, and its form on disk."""

from flyball.documents.snapshot.check import check, parse
from flyball.documents.snapshot.compile import ModelSource, compile_models
from flyball.documents.snapshot.models import (
    FORMAT,
    BatchWait,
    Deployment,
    Index,
    Limits,
    Slo,
    Terms,
)
from flyball.documents.snapshot.pack import pack_models
from flyball.documents.snapshot.store import Bundle, read

__all__ = [
    "FORMAT",
    "BatchWait",
    "Bundle",
    "Deployment",
    "Index",
    "Limits",
    "ModelSource",
    "Slo",
    "Terms",
    "check",
    "compile_models",
    "pack_models",
    "parse",
    "read",
]
