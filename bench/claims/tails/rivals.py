"""The servers that ours stands beside: FastAPI in both styles, and Triton with its ONNX Runtime backend where there is one.

Must not know what is claimed.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from bench.claims.subjects import Subject, fastapi
from bench.peers.peers import Setting, choose, install, onnx_backend, payloads_for, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from flyball.bench.process import Process

FASTAPI = {"FastAPI def": "def", "FastAPI async def": "async"}
TRITON = {"Triton": None, "Triton without batching": 1}
_PEER = choose(["triton"])[0]


def triton_missing() -> str | None:
    """Why Triton cannot stand beside ours, if it cannot."""
    if onnx_backend() is None:
        return "Triton's ONNX Runtime backend is not here; name its folder in TRITON_BACKEND_DIR"
    installed = install(_PEER)
    return f"Triton did not install: {installed[-200:]}" if isinstance(installed, str) else None


def rival(name: str, subject: Subject, cpus: list[int]) -> AbstractContextManager[Process]:
    """A rival by its name in `FASTAPI` or `TRITON`, on these cores."""
    return fastapi(subject, FASTAPI[name], cpus) if name in FASTAPI else _triton(subject, TRITON[name], cpus)


def asked(name: str, subject: Subject) -> Subject:
    """The same requests, their answers as this rival shapes them."""
    return replace(subject, payloads=payloads_for(_PEER, subject.payloads)) if name in TRITON else subject


@contextmanager
def _triton(subject: Subject, max_batch: int | None, cpus: list[int]) -> Iterator[Process]:
    with serving(_PEER, f"{subject.name}={subject.path}", Setting(1, max_batch), cpus) as server:
        yield server
