"""The rival servers: FastAPI in both styles, Triton if its ONNX Runtime backend is installed, and MLServer.

Must not know what is claimed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bench.claims.subjects import Subject, fastapi
from bench.peers.peers import Peer, Setting, choose, install, onnx_backend, payloads_for, serving

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from flyball.bench.process import Process

FASTAPI = {"FastAPI def": "def", "FastAPI async def": "async"}
TRITON = {"Triton": None, "Triton without batching": 1}
MLSERVER = "MLServer"
_TRITON, _MLSERVER = choose(["triton", "mlserver"])


def triton_missing() -> str | None:
    """Why Triton cannot stand beside ours, if it cannot."""
    if onnx_backend() is None:
        return "Triton's ONNX Runtime backend is not here; name its folder in TRITON_BACKEND_DIR"
    return _not_installed(_TRITON)


def mlserver_missing() -> str | None:
    """Why MLServer cannot stand beside ours, if it cannot."""
    return _not_installed(_MLSERVER)


def rival(name: str, subject: Subject, cpus: list[int], *, grpc: bool = False) -> AbstractContextManager[Process]:
    """A rival by its name, on these cores; with `grpc` its address is that of its gRPC, which FastAPI has not."""
    if name in FASTAPI:
        return fastapi(subject, FASTAPI[name], cpus)
    peer, max_batch = (_MLSERVER, None) if name == MLSERVER else (_TRITON, TRITON[name])
    return serving(peer, f"{subject.name}={subject.path}", Setting(1, max_batch, grpc), cpus)


def asked(name: str, subject: Subject) -> Subject:
    """The same requests, their answers as this rival shapes them."""
    return replace(subject, payloads=payloads_for(_TRITON, subject.payloads)) if name in TRITON else subject


def _not_installed(peer: Peer) -> str | None:
    installed = install(peer)
    return f"{peer.name} did not install: {installed[-200:]}" if isinstance(installed, str) else None
