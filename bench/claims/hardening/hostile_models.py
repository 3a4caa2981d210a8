"""Topic `models`: hostile models are loaded and run beside a GBDT's traffic, on a server limited to 2 GiB.

Each is loaded by a new snapshot, called, and removed by another one; the GBDT is measured alone before and beside it.
"""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from bench.claims.bars import at_most, none, times
from bench.claims.callers import Callers
from bench.claims.claim import Claim, Figure, Raw, Topic
from bench.claims.figures import median_over, ratio
from bench.claims.hardening.cage import Cage
from bench.claims.hardening.zoo import Hostile, all_hostile
from bench.claims.ratios import P50_BESIDE_MAX
from bench.claims.subjects import ANY_PORT, FLYBALLD, Subject, need
from bench.claims.windows import Windows
from flyball.bench.machine import HostWatch
from flyball.bench.process import Process
from flyball.bench.statistics import STEAL_MAX
from flyball.documents.snapshot import Terms
from flyball.errors import FlyballError
from flyball.native.boundary import ort_library
from flyball.native.load import LoadRun
from flyball.native.load_documents import Arrivals

if TYPE_CHECKING:
    from pathlib import Path

    from bench.claims.tails.stand import Stand
    from flyball.documents.snapshot import Bundle
    from flyball.native.load_documents import LoadResult

CAGE_BYTES = 2 << 30
RATE_PER_S, CONNECTIONS, WINDOW_S = 500.0, 4, 2.0
MEMORY_MAX = 1.1
RUN_MS_MAX, PROBE_MS_MAX = 1000, 10_000
CALL_S, LOADED_WITHIN_S, SETTLED_WITHIN_S = 60.0, 30.0, 20.0
DESIGNED = {200, 400, 404, 413, 422, 429, 500, 503, 504}
TERMS = Terms.model_validate({"limits": {"run_ms_max": RUN_MS_MAX}})
_DYING_S = 1.0  # from a connection that breaks to a process that is gone
ALONE, BESIDE = "alone", "beside"
FATES, WINDOWS = "fates", "windows"


@dataclass(slots=True)
class Fate:
    """What became of one hostile model."""

    name: str
    tries: str
    loaded: str = ""
    answers: str = ""
    designed: bool = False
    server_died: bool = False
    before_bytes: int = 0
    after_bytes: int = 0
    alone_us: float = 0.0
    beside_us: float = 0.0
    """The GBDT's p50 before it and beside it; 0 where a window was discarded."""

    @property
    def grown(self) -> float:
        """Resident memory after it, over what it was before."""
        return self.after_bytes / self.before_bytes if self.before_bytes else float("inf")


def measure(stand: Stand) -> None:
    """All of them, one after the other; `--quick` takes every tenth."""
    hostiles = all_hostile()[:: 10 if stand.quick else 1]
    with ExitStack() as stack:
        cage = stack.enter_context(Cage(CAGE_BYTES))
        if cage.why_not:
            stand.not_measured(cage.why_not)
            return
        pen = stack.enter_context(Pen(stand, cage))
        windows = {ALONE: Windows(), BESIDE: Windows()}
        fates = [pen.meet(hostile, windows) for hostile in hostiles]
    stand.keep(FATES, fates)
    stand.keep(WINDOWS, windows)


class Pen:
    """The server with the GBDT; one that died or hangs is started again for the next model."""

    def __init__(self, stand: Stand, cage: Cage) -> None:
        self._stand, self._cage, self._fraud = stand, cage, stand.fraud
        self._generations, self._seeds = count(1), count(1)
        self._folder = stand.folder / "pen"
        self._folder.mkdir()
        self._server: Process | None = None

    def __enter__(self) -> Pen:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def meet(self, hostile: Hostile, windows: dict[str, Windows]) -> Fate:
        """Everything with one model."""
        fate = Fate(hostile.name, hostile.tries)
        server = self._server if self._server and self._server.alive() else self._start()
        try:
            bundle, fate.loaded = self._prepare(hostile)
            fate.alone_us = self._window(server, windows[ALONE])
            fate.before_bytes = server.rss_bytes()
            beside = self._load(server)
            if bundle is not None:
                fate.loaded = self._apply(server, bundle)
            if not fate.loaded or "refused" in fate.loaded:
                fate.answers, fate.designed = self._call(server, hostile, beside)
            fate.beside_us = self._end_window(beside, windows[BESIDE])
            fate.after_bytes = self._settled(server, fate.before_bytes)
        except (FlyballError, OSError) as error:
            fate.loaded = fate.loaded or str(error)[:200]
            time.sleep(_DYING_S)
        fate.server_died = not server.alive()
        if fate.server_died or "did not end" in fate.loaded:
            self._end()
        self._stand.tell(f"{hostile.name}: {fate.loaded or 'loaded'}; {fate.answers}; {fate.grown:.2f}")
        return fate

    def _start(self) -> Process:
        self._end()
        index = self._compile(None).write(self._folder / "snapshot")
        config = self._folder / "config.json"
        settings = {"lanes": 1, "previous_kept": 0, "unsigned": "allow", "log": "error", "probe_ms_max": PROBE_MS_MAX}
        config.write_text(json.dumps(settings))
        command = [str(need(FLYBALLD)), "--snapshot", str(index), "--config", str(config), *ANY_PORT]
        environment = {"ORT_DYLIB_PATH": str(ort_library())}
        self._server = Process(self._cage.command(command), cpus=self._stand.server_cpus, environment=environment)
        return self._server

    def _end(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None

    def _prepare(self, hostile: Hostile) -> tuple[Bundle | None, str]:
        """Write the model and compile its snapshot, before any window: a large model keeps a core busy with that."""
        path = self._folder / f"{hostile.name}.onnx"
        path.write_bytes(hostile.make().SerializeToString())  # as it is: onnx.save would look after external data
        try:
            return self._compile(path), ""
        except FlyballError as error:
            return None, f"refused: {error}"[:200]

    def _compile(self, hostile: Path | None) -> Bundle:
        subjects = [self._fraud]
        if hostile is not None:
            subjects.append(Subject("hostile", hostile, b"", 0.0))
        return self._stand.snapshot(*subjects, terms=TERMS, generation=next(self._generations))

    def _apply(self, server: Process, bundle: Bundle) -> str:
        """Apply the next snapshot; returns why the hostile model does not serve, or nothing."""
        index = bundle.write(self._folder / "snapshot")
        generation = json.loads(index.read_text())["generation"]
        os.kill(server.pid, signal.SIGHUP)
        deadline = time.monotonic() + LOADED_WITHIN_S
        while time.monotonic() < deadline and server.alive():
            states = _get(server, "/v1/deployments")
            if states.get("generation") == generation:
                reasons = [
                    state["reason"] for state in states["deployments"] if state["name"] == "hostile" and state["reason"]
                ]
                return f"refused: {reasons[0]}"[:200] if reasons else ""
            time.sleep(0.05)
        return f"its load did not end in {LOADED_WITHIN_S:g} s"

    def _call(self, server: Process, hostile: Hostile, beside: LoadRun) -> tuple[str, bool]:
        """Call it for as long as the GBDT is measured, and once at least."""
        question = ("/v2/models/hostile/infer", json.dumps({"inputs": hostile.inputs}).encode())
        with Callers(server.url, [lambda _number: question], CALL_S) as callers:
            while server.alive() and not (callers.all() and beside.finished()):
                time.sleep(0.05)
        answers = callers.all()
        seen = {f"{answer.status} {str(answer.content.get('error', ''))[:120]}" for answer in answers}
        designed = all(answer.status in DESIGNED and "panicked" not in str(answer.content) for answer in answers)
        return f"{len(answers)} answers: " + "; ".join(sorted(seen))[:300], designed and bool(answers)

    def _load(self, server: Process) -> LoadRun:
        seconds = self._stand.seconds(WINDOW_S)
        arrivals = Arrivals(kind="poisson", rate_per_s=RATE_PER_S, seed=next(self._seeds))
        return LoadRun(self._fraud.plan(server, CONNECTIONS, arrivals=arrivals, duration_s=seconds), self._fraud.payloads)

    def _window(self, server: Process, kept: Windows) -> float:
        return self._end_window(self._load(server), kept)

    def _end_window(self, load: LoadRun, kept: Windows) -> float:
        """Returns the window's p50; 0 where it was discarded."""
        with HostWatch() as host:
            result: LoadResult = load.result()
        if result.mismatched:
            raise FlyballError(f"{result.mismatched} answers of the GBDT differ: {result.first_problem}")
        if host.seen.steal_share > STEAL_MAX:
            kept.keep(result, host.seen.steal_share)
            return 0.0
        kept.values.append(result)
        return result.latency_us.p50

    def _settled(self, server: Process, before_bytes: int) -> int:
        """What is resident once the model is gone and memory was given back, or time is up."""
        self._apply(server, self._compile(None))
        deadline = time.monotonic() + SETTLED_WITHIN_S
        while (now := server.rss_bytes()) > MEMORY_MAX * before_bytes and time.monotonic() < deadline:
            time.sleep(0.1)
        return now


def _get(server: Process, path: str) -> dict[str, Any]:
    with urllib.request.urlopen(server.url + path, timeout=10) as answer:  # noqa: S310 - our own server
        content: dict[str, Any] = json.load(answer)
    return content


def _died(raw: Raw) -> Figure:
    died = [fate["name"] for fate in raw[FATES] if fate["server_died"]]
    return Figure(len(died), f"of {len(raw[FATES])}" + (f": {', '.join(died)}"[:200] if died else ""))


def _odd(raw: Raw) -> Figure:
    odd = [f"{fate['name']}: {fate['loaded'] or fate['answers']}" for fate in raw[FATES] if not fate["designed"]]
    return Figure(len(odd), f"of {len(raw[FATES])}" + (f": {'; '.join(odd)}"[:300] if odd else ""))


def _grown(raw: Raw) -> Figure:
    living = [fate for fate in raw[FATES] if not fate["server_died"]]
    grown = {fate["name"]: ratio(fate["after_bytes"], fate["before_bytes"]) for fate in living}
    worst = max(grown, key=lambda name: grown[name])
    return Figure(grown[worst], f"{worst}, the worst of {len(grown)}")


TOPIC = Topic(
    "models",
    measure,
    subject=f"hostile models loaded and run beside a GBDT at {RATE_PER_S:,.0f}/s, on a server under {CAGE_BYTES >> 30} GiB",
    sample=f"every model of the zoo, windows of {WINDOW_S:g} s before and beside each",
    claims=(
        Claim("lives", "models that end the server", none(), _died),
        Claim("designed", "models without their designed answer", none(), _odd),
        Claim("memory", "resident memory after each over before, the worst", at_most(MEMORY_MAX, times), _grown),
        Claim(
            "p50",
            "p50 of the GBDT beside them over alone",
            at_most(P50_BESIDE_MAX, times),
            median_over(WINDOWS, BESIDE, ALONE, key="latency_us.p50"),
        ),
    ),
)
