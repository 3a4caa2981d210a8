"""Topic: twenty reloads of 100 MB beside traffic to it and to the GBDT, in paired windows with and without a reload."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from functools import partial
from itertools import count
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.claims.bars import at_most, none, share, times
from bench.claims.claim import Claim, Figure, NotMeasuredError, Raw, Topic
from bench.claims.tails.curve import capacity_per_s
from bench.claims.tails.loads import run_together
from bench.claims.tails.row_models import retitle
from bench.claims.windows import Windows
from flyball.bench.machine import HostWatch
from flyball.bench.table import latency, size
from flyball.errors import FlyballError
from flyball.native.load_documents import Arrivals

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.claims.subjects import Subject
    from bench.claims.tails.stand import Stand
    from flyball.bench.process import Process
    from flyball.documents.snapshot import Bundle
    from flyball.native.load_documents import LoadResult

    Pair = dict[str, dict[str, LoadResult]]

PAIRS = "pairs"
TOLD = {"table": "the model itself", "fraud": "the GBDT"}
RELOADS, WINDOW_S, QUICK_RELOADS = 20, 5.0, 2
LOAD = 0.5  # of capacity, half of it to each model
CONNECTIONS = 16
P50_MAX, P99_MAX, MEMORY_WITHIN = 1.1, 1.5, 0.05
_APPLIED_S, _SETTLE_S, _POLL_S = 20.0, 2.0, 0.05


def measure(stand: Stand) -> None:
    """Every reload in a window of its own, with one beside it that has none."""
    index = stand.snapshot(stand.table, stand.fraud).write(stand.folder / "reloading")
    with stand.serve_snapshot(index) as server:
        rates = {subject.name: LOAD / 2 * capacity_per_s(stand, subject, server) for subject in (stand.table, stand.fraud)}
        window = partial(_window, stand, server, rates, count(1))
        window(None)
        before = server.rss_bytes()
        pairs = Windows()
        took_s: list[float] = []
        for turn in range(QUICK_RELOADS if stand.quick else RELOADS):
            bundle = _next_version(stand, turn)
            reload = partial(_reload, server, bundle, index.parent, took_s)
            # Another one first each time, so that what drifts falls on both alike.
            with HostWatch() as host:
                found = {kind: window(reload if kind == "with" else None) for kind in _order(turn)}
            pairs.keep(found, host.seen.steal_share)
            stand.tell(f"reload {turn + 1}: applied after {took_s[-1]:.2f} s; {_told(found)}")
        time.sleep(_SETTLE_S)
        after = server.rss_bytes()
    stand.keep("rates_per_s", rates)
    stand.keep("applied_s", took_s)
    stand.keep("memory_bytes", {"before": before, "after": after})
    stand.keep("pairs", {PAIRS: pairs})


def _window(stand: Stand, server: Process, rates: dict[str, float], seeds: count[int], reload: Any) -> dict[str, LoadResult]:
    subjects = (stand.table, stand.fraud)
    loads = [(_plan(stand, subject, server, rates[subject.name], next(seeds)), subject.payloads) for subject in subjects]
    return dict(zip(rates, run_together(loads, reload), strict=True))


def _plan(stand: Stand, subject: Subject, server: Process, rate_per_s: float, seed: int) -> Any:
    arrivals = Arrivals(kind="poisson", rate_per_s=rate_per_s, seed=seed)
    # Long enough for a whole reload also where the windows are short.
    return subject.plan(server, CONNECTIONS, arrivals=arrivals, duration_s=2.0 if stand.quick else WINDOW_S)


def _next_version(stand: Stand, turn: int) -> Bundle:
    """The same table under another digest, so that nothing of it is known to the server and every answer can be checked."""
    path = retitle(stand.table.path, stand.folder / f"table-{turn}.onnx", f"version {turn}")
    (stand.folder / f"table-{turn - 2}.onnx").unlink(missing_ok=True)
    return stand.snapshot(replace(stand.table, path=path), stand.fraud, generation=turn + 2)


def _reload(server: Process, bundle: Bundle, folder: Path, took_s: list[float]) -> None:
    """Write the snapshot, send the signal, and wait until the log says that the deployment is applied."""
    digest = bundle.parsed_index().deployments[0].digest
    bundle.write(folder)
    begun = time.monotonic()
    os.kill(server.pid, signal.SIGHUP)
    while not any(digest in line and "deployment applied" in line for line in server.stderr_tail().splitlines()):
        if time.monotonic() - begun > _APPLIED_S:
            raise FlyballError(f"no reload within {_APPLIED_S:g} s: {server.stderr_tail()[-300:]}")
        time.sleep(_POLL_S)
    took_s.append(time.monotonic() - begun)


def _order(turn: int) -> tuple[str, str]:
    return ("with", "without") if turn % 2 else ("without", "with")


def _told(pair: Pair) -> str:
    return ", ".join(f"{kind} p99 {latency(window['fraud'].latency_us.p99)}" for kind, window in pair.items())


def _lost(raw: Raw) -> Figure:
    """Over all windows, discarded ones as well."""
    sides = raw.windows("pairs")
    places = [f"{kind}.{name}" for kind in ("with", "without") for name in TOLD]
    lost = sides.total((PAIRS,), *(f"{place}.{which}" for place in places for which in ("failed", "refused", "mismatched")))
    return Figure(lost, f"of {sides.total((PAIRS,), *(f'{place}.sent' for place in places)):,}")


def _over(name: str, which: str) -> Callable[[Raw], Figure]:
    def figure(raw: Raw) -> Figure:
        sides = raw.windows("pairs")
        if len(sides.values(PAIRS)) < len(sides.found[PAIRS]["discarded"]):
            raise NotMeasuredError(f"{len(sides.found[PAIRS]['discarded'])} of all pairs were discarded")
        sides_us = {kind: sides.values(PAIRS, f"{kind}.{name}.latency_us.{which}") for kind in ("with", "without")}
        ratios = [one / other for one, other in zip(sides_us["with"], sides_us["without"], strict=True)]
        return Figure(median(ratios), f"{latency(median(sides_us['without']))} without")

    return figure


def _memory(raw: Raw) -> Figure:
    before, after = raw["memory_bytes"]["before"], raw["memory_bytes"]["after"]
    return Figure(abs(after / before - 1), f"{size(before)}, {size(after)}")


TOPIC = Topic(
    "reloads",
    measure,
    subject=f"a model of 100 MB that is reloaded, and the GBDT beside it, each at {LOAD / 2:.0%} of its capacity, open loop",
    sample=f"{RELOADS} reloads, each with a paired window without one, {WINDOW_S:g} s each",
    claims=(
        Claim("lost", "requests that failed, were refused or were answered wrongly", none(), _lost),
        *(
            Claim(f"{name}-{which}", f"{told}: {which} with a reload over without", at_most(most, times), _over(name, which))
            for name, told in TOLD.items()
            for which, most in (("p50", P50_MAX), ("p99", P99_MAX))
        ),
        Claim("memory", "memory after all of them beside before, apart", at_most(MEMORY_WITHIN, share), _memory),
    ),
)
