"""The list of peers, how each is installed into its own environment, and how it is started.

Each folder holds requirements.in, its lock, and a serve.py that says `ready http://…`. Must not know how they are measured.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import sysconfig
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bench.environments import Installed, install_lock, python_of
from flyball.bench.process import READY_S, Process
from flyball.errors import FlyballError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parent
BUILT_BACKENDS = ROOT.parents[1] / ".parts" / "triton-backends"


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
    trees: bool = False  # serves tree ensembles and nothing else

    @property
    def folder(self) -> Path:
        """Where its files lie."""
        return ROOT / self.name

    @property
    def lock(self) -> Path:
        """What its environment holds."""
        return self.folder / "requirements.lock"


_COMPILED = "trees compiled by {} behind the bare ASGI application"
_COMPILED_S = 300.0
PEERS = (
    Peer("fastapi", "fastapi", default=True, note="uvicorn, uvloop, httptools; orjson or msgspec, def or async def"),
    Peer("asgi", "uvicorn", default=True, note="no framework: uvicorn, uvloop, httptools, orjson"),
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
    Peer("lleaves", "lleaves", default=False, note=_COMPILED.format("LLVM"), ready_s=_COMPILED_S, trees=True),
    Peer("tl2cgen", "tl2cgen", default=False, note=_COMPILED.format("gcc"), ready_s=_COMPILED_S, trees=True),
)


@dataclass(frozen=True, slots=True)
class Setting:
    """How a peer is started; `max_batch` None is its own default, 1 is no batching.

    `grpc`: the peer's address is that of its gRPC. `delay_us` is how long a batch waits for more requests. `style` is one
    of the ways in which the peer is written.
    """

    workers: int
    max_batch: int | None = None
    grpc: bool = False
    style: str = ""
    delay_us: int = 0

    @property
    def words(self) -> str:
        """What is set, for people."""
        batch = "" if self.max_batch is None else "no batching" if self.max_batch == 1 else f"batches up to {self.max_batch}"
        delay = f"waiting {self.delay_us} µs" if self.delay_us else ""
        workers = f"{self.workers} workers" if self.workers > 1 else ""
        return ", ".join(part for part in (self.style, batch, delay, workers) if part)

    @property
    def flags(self) -> list[str]:
        """The same as arguments of serve.py."""
        given = [] if self.max_batch is None else ["--max-batch", str(self.max_batch)]
        given += ["--delay-us", str(self.delay_us)] if self.delay_us else []
        given += ["--style", self.style] if self.style else []
        return [*given, "--grpc"] if self.grpc else given


STYLES = tuple(f"{codec}, {kind}" for kind in ("async def", "def") for codec in ("orjson", "msgspec"))
_DELAYS_US = (0, 100)
_BATCHES = (8, 32)
_JOINED = 32


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
    """The version that its lock holds."""
    found = re.search(rf"^{re.escape(peer.package)}==(\S+)", peer.lock.read_text(), re.MULTILINE)
    if found is None:
        raise UsageError(f"{peer.lock} has no {peer.package}", next_step="lock it again, as its requirements.in says")
    return found[1]


def running_version(peer: Peer, url: str) -> str:
    """The version that the running server states: Triton's server has another one than its wheel."""
    if peer.name != "triton":
        return version(peer)
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    try:
        connection.request("GET", "/v2")
        stated = json.loads(connection.getresponse().read())["version"]
    except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
        raise FlyballError(f"{url}/v2 states no version: {error!r}") from error
    finally:
        connection.close()
    return f"{stated}, {'ONNX Runtime' if onnx_backend() else 'Python'} backend"


def settings(peer: Peer, workers: int, *, grpc: bool = False) -> list[Setting]:
    """The settings worth trying, the likeliest first: `fastest` keeps the best."""
    if peer.name == "fastapi":
        return [Setting(workers, style=style) for style in STYLES]
    if peer.name == "asgi" or peer.trees:
        return [Setting(workers, 1), Setting(workers, _JOINED)]
    if peer.name == "triton":
        swept = [(batch, delay) for batch in _BATCHES for delay in _DELAYS_US]
        ways = [(workers, 1, 0), *((workers, *way) for way in swept)]
        ways += [(1 if workers > 1 else 2, batch, 0) for batch in (1, _JOINED)]
        return [Setting(count, batch, grpc, delay_us=delay) for count, batch, delay in ways]
    return [Setting(workers, grpc=grpc)]


def fastest(
    ways: Sequence[Setting], rate: Callable[[Setting], float], tell: Callable[[str], object]
) -> tuple[Setting, dict[str, float]]:
    """The setting with the highest rate, and all rates; one that fails is told and left out."""
    rates: dict[Setting, float] = {}
    reasons = []
    for way in ways:
        try:
            rates[way] = rate(way)
        except FlyballError as error:
            reasons.append(f"{way.words or 'default settings'}: {error}")
            tell(reasons[-1])
    if not rates:
        raise FlyballError("; ".join(reasons))
    return max(rates, key=rates.__getitem__), {way.words: found for way, found in rates.items()}


def command(peer: Peer, model: str, setting: Setting, *, root: Path = ROOT) -> list[str]:
    """How the peer is started; `model` is NAME=MODEL.onnx."""
    python, script = python_of(_home(peer, root)), peer.folder / "serve.py"
    return [str(python), str(script), model, "--port", "0", "--workers", str(setting.workers), *setting.flags]


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
    """The folder of Triton's backends with the ONNX Runtime backend: a given one, or what `make triton-backend` built."""
    folder = Path(given.get("TRITON_BACKEND_DIR") or BUILT_BACKENDS)
    return folder.resolve() if (folder / "onnxruntime" / "libtriton_onnxruntime.so").is_file() else None


@contextmanager
def serving(peer: Peer, model: str, setting: Setting, cpus: Sequence[int], root: Path = ROOT) -> Iterator[Process]:
    """The peer, ready on these cores; leaving ends it and removes what it wrote."""
    start = command(peer, model, setting, root=root)
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
