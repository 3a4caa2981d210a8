"""The Snapshot: the only contract between the planes. Models, checks, the compiler, and its form on disk."""

from flyball.documents.snapshot.check import check, parse
from flyball.documents.snapshot.compile import ModelSource, compile_models
from flyball.documents.snapshot.models import (
    FORMAT,
    BatchWait,
    Candidate,
    Checkpoint,
    Deployment,
    Index,
    Limits,
    Package,
    Signed,
    Slo,
    Terms,
)
from flyball.documents.snapshot.pack import pack_models
from flyball.documents.snapshot.store import Bundle, read

__all__ = [
    "FORMAT",
    "BatchWait",
    "Bundle",
    "Candidate",
    "Checkpoint",
    "Deployment",
    "Index",
    "Limits",
    "ModelSource",
    "Package",
    "Signed",
    "Slo",
    "Terms",
    "check",
    "compile_models",
    "pack_models",
    "parse",
    "read",
]
