"""The rival servers of the claims, each in the setting that is the fastest on this machine.

A short window of every setting of bench.peers selects it; the windows that count follow. Must not know what is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from bench.claims.figures import over_best
from bench.peers.peers import (
    PEERS,
    Peer,
    Setting,
    fastest,
    install,
    onnx_backend,
    payloads_for,
    running_version,
    serving,
    settings,
    version,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from bench.claims.claim import Figure, Raw
    from bench.claims.figures import Figured
    from bench.claims.subjects import Subject
    from bench.claims.tails.stand import Stand
    from flyball.bench.process import Process

FASTAPI, ASGI, TRITON, MLSERVER = "FastAPI", "bare ASGI app", "Triton", "MLServer"
TREES = ("lleaves", "TL2cgen")
RIVALS = (FASTAPI, ASGI, TRITON, *TREES)
_PEERS = {
    FASTAPI: "fastapi",
    ASGI: "asgi",
    TRITON: "triton",
    MLSERVER: "mlserver",
    "lleaves": "lleaves",
    "TL2cgen": "tl2cgen",
}
FASTAPI_SHORT = (
    "The bar was set when FastAPI read and wrote JSON by the standard library. Of the GBDT's 21 µs a request, 9 are its "
    "trees and 8 the kernel's sockets, and orjson makes FastAPI's requests cheaper, not ours."
)
_SWEEP_S, _CONNECTIONS = 1.0, 16


@dataclass(frozen=True, slots=True)
class Rival:
    """A rival in its fastest setting, with the requests as it answers them."""

    peer: Peer
    setting: Setting
    subject: Subject
    told: dict[str, Any]
    """The version, the setting and the rates of all settings, for the record."""

    def start(self, cpus: Sequence[int], *, workers: int | None = None) -> AbstractContextManager[Process]:
        """The server on these cores; with as many workers as were fastest on one core, unless a number is given."""
        return _start(self.peer, self.subject, replace(self.setting, workers=workers or self.setting.workers), cpus)


def missing(name: str) -> str | None:
    """Why a rival cannot be measured here; None if it can."""
    if name == TRITON and onnx_backend() is None:
        return "Triton's ONNX Runtime backend is not here; make it (make triton-backend) or set TRITON_BACKEND_DIR"
    installed = install(_peer(name))
    return f"{name} did not install: {installed[-200:]}" if isinstance(installed, str) else None


def prepare(stand: Stand, name: str, subject: Subject, *, grpc: bool = False) -> Rival:
    """Try a rival's settings on the server's core; with `grpc` it is asked by gRPC."""
    peer = _peer(name)
    asked = replace(subject, payloads=payloads_for(peer, subject.payloads))
    seconds, protocol = stand.seconds(_SWEEP_S), {"protocol": "grpc"} if grpc else {}
    versions = set[str]()

    def rate(way: Setting) -> float:
        with _start(peer, asked, way, stand.server_cpus) as server:
            if not grpc:  # the version is asked by HTTP
                versions.add(running_version(peer, server.url))
            found = asked.load(server, _CONNECTIONS, duration_s=seconds, **protocol)
        stand.tell(f"{name}, {way.words or 'default settings'}: {found.rate_per_s:,.0f}/s")
        return found.rate_per_s

    setting, rates = fastest(settings(peer, 1, grpc=grpc), rate, lambda reason: stand.tell(f"{name}, {reason}"))
    if grpc and name == TRITON:
        with _start(peer, asked, replace(setting, grpc=False), stand.server_cpus) as server:
            versions.add(running_version(peer, server.url))
    told = {"version": min(versions, default=version(peer)), "setting": setting.words, "tried_per_s": rates}
    return Rival(peer, setting, asked, told)


def fastapi(subject: Subject, style: str, cpus: Sequence[int]) -> AbstractContextManager[Process]:
    """FastAPI with one worker, written in one of peers.STYLES."""
    return _start(_peer(FASTAPI), subject, Setting(1, style=style), cpus)


def over_rivals(windows: str, ours: str, names: Sequence[str], told: str) -> Figured:
    """Our median rate over the best median of rivals; `told` is where their versions and settings are kept."""
    return partial(_over_rivals, windows, ours, names, told)


def _over_rivals(windows: str, ours: str, names: Sequence[str], told: str, raw: Raw) -> Figure:
    found = over_best(windows, ours, names)(raw)
    known = raw[told]
    notes = [f"{name} {known[name]['version']}, {known[name]['setting'] or 'as it is'}" for name in names]
    return replace(found, beside="; ".join([found.beside, *notes]))


def _peer(name: str) -> Peer:
    return next(peer for peer in PEERS if peer.name == _PEERS[name])


def _start(peer: Peer, subject: Subject, setting: Setting, cpus: Sequence[int]) -> AbstractContextManager[Process]:
    return serving(peer, f"{subject.name}={subject.path}", setting, cpus)
