"""The list of peers, how each is installed into its own environment, and how it is started.

Each folder holds requirements.in, its lock, and a serve.py that says `ready http://…`. Must not know how they are measured.
"""

from __future__ import annotations

import json
import os
import re
import sysconfig
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.environments import Installed, install_lock, python_of
from flyball.bench.process import READY_S, Process
from flyball.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Peer:
    """One server to compare with."""

    name: str
    package: str
    default: bool
    note: str
    path: str = "/v2/models/{model}/infer"
    ready_s: float = READY_S
    columns: bool = False  # answers a batched vector as a column: [rows, 1] where the model says [rows]

    @property
    def folder(self) -> Path:
        """Where its files lie."""
        return ROOT / self.name

    @property
    def lock(self) -> Path:
        """What its environment holds."""
        return self.folder / "requirements.lock"


PEERS = (
    Peer("fastapi", "fastapi", default=True, note="uvicorn, uvloop, httptools; async endpoint"),
    Peer("mlserver", "mlserver", default=True, note="custom runtime in the server's process; no batching"),
    Peer("litserve", "litserve", default=True, note="ZeroMQ queues; no batching"),
    Peer("bentoml", "bentoml", default=True, note="async service, Pydantic types, uvloop, httptools; no batching"),
    Peer(
        "triton",
        "nvidia-pytriton",
        default=True,
        note="the wheel's server; batched unless its command says --max-batch 1",
        columns=True,
    ),
    Peer("ray-serve", "ray", default=False, note="HAProxy in front of the replicas; batches of what waits", ready_s=180.0),
    Peer("kserve", "kserve", default=False, note="custom model, one process"),
)


@dataclass(frozen=True, slots=True)
class Setting:
    """A way to start a peer; `max_batch` None is its own default, 1 no batching; `grpc`: its address is that of its gRPC."""

    workers: int
    max_batch: int | None = None
    grpc: bool = False


def choose(names: Sequence[str], *, every: bool = False) -> list[Peer]:
    """The named peers; without names the default ones, or all."""
    known = {peer.name: peer for peer in PEERS}
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"there is no peer {', '.join(unknown)}", next_step=f"choose from:  {' '.join(known)}")
    return [known[name] for name in names] or [peer for peer in PEERS if peer.default or every]


def install(peer: Peer, root: Path = ROOT, *, uv: Path | None = None) -> Installed | str:
    """Make the peer's environment under `root`, or say why it could not be made."""
    return install_lock(peer.lock, _home(peer, root), uv=uv)


def version(peer: Peer) -> str:
    """The version that its lock holds; Triton's names its backend too."""
    found = re.search(rf"^{re.escape(peer.package)}==(\S+)", peer.lock.read_text(), re.MULTILINE)
    if found is None:
        raise UsageError(f"{peer.lock} has no {peer.package}", next_step="lock it again, as its requirements.in says")
    if peer.name == "triton":
        return f"{found[1]}, {'ONNX Runtime' if onnx_backend() else 'Python'} backend"
    return found[1]


def settings(peer: Peer, workers: int) -> list[Setting]:
    """The ways worth trying, the likeliest first: whoever measures keeps the best."""
    ways = [Setting(workers)]
    if peer.name == "triton":
        if workers > 1:
            ways.append(Setting(1))
        if onnx_backend():
            ways += [Setting(way.workers, max_batch=1) for way in ways]
    return ways


def command(
    peer: Peer, model: str, workers: int, *, max_batch: int | None = None, grpc: bool = False, root: Path = ROOT
) -> list[str]:
    """How the peer is started; `model` is NAME=MODEL.onnx."""
    python, script = python_of(_home(peer, root)), peer.folder / "serve.py"
    start = [str(python), str(script), model, "--port", "0", "--workers", str(workers)]
    start += [] if max_batch is None else ["--max-batch", str(max_batch)]
    return [*start, "--grpc"] if grpc else start


def environment(peer: Peer, scratch: Path | None = None) -> dict[str, str]:
    """What the peer needs beside our own environment; what it writes, it writes under `scratch`."""
    needs = {"PYTHONPATH": str(ROOT / "common"), "OMP_NUM_THREADS": "1"}
    if scratch is not None:
        needs["TMPDIR"] = str(scratch)
    if peer.name == "triton":
        # The Python backend's stub links to libpython, which lies where this interpreter has it.
        needs["LD_LIBRARY_PATH"] = str(sysconfig.get_config_var("LIBDIR"))
        needs["TRITON_BACKEND_DIR"] = str(onnx_backend() or "")
    return needs


def onnx_backend(given: Mapping[str, str] = os.environ) -> Path | None:
    """The folder of Triton's backends, if one was given that holds the ONNX Runtime backend."""
    folder = given.get("TRITON_BACKEND_DIR")
    if folder and (Path(folder) / "onnxruntime" / "libtriton_onnxruntime.so").is_file():
        return Path(folder).resolve()
    return None


@contextmanager
def serving(peer: Peer, model: str, setting: Setting, cpus: Sequence[int], root: Path = ROOT) -> Iterator[Process]:
    """The peer, ready on these cores; leaving ends it and removes what it wrote."""
    start = command(peer, model, setting.workers, max_batch=setting.max_batch, grpc=setting.grpc, root=root)
    # A short name: Ray puts sockets deep inside, and their paths have 107 bytes at most.
    with tempfile.TemporaryDirectory(prefix="fb-", ignore_cleanup_errors=True) as scratch:
        needs = environment(peer, Path(scratch))
        with Process(start, cpus=cpus, environment=needs, ready_s=peer.ready_s) as process:
            yield process


def payloads_for(peer: Peer, payloads: bytes) -> bytes:
    """The same requests, their answers shaped as this peer shapes them."""
    if not peer.columns:
        return payloads
    documents = [json.loads(line) for line in payloads.splitlines()]
    for document in documents:
        for output in document["outputs"] or ():
            if len(output["shape"]) == 1:
                output["shape"].append(1)
    return "".join(json.dumps(document, separators=(",", ":")) + "\n" for document in documents).encode()


def _home(peer: Peer, root: Path) -> Path:
    return root / ".venvs" / peer.name
