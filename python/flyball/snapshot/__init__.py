"""The Snapshot: the only contract between the planes. Models, checks, the compiler, and its form on disk."""

from flyball.snapshot.check import check, parse
from flyball.snapshot.compile import ModelSource, compile_models
from flyball.snapshot.models import FORMAT, Deployment, Index
from flyball.snapshot.pack import pack_models
from flyball.snapshot.store import Bundle, read

__all__ = [
    "FORMAT",
    "Bundle",
    "Deployment",
    "Index",
    "ModelSource",
    "check",
    "compile_models",
    "pack_models",
    "parse",
    "read",
]
