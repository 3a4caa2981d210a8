"""Topic: twenty reloads of 100 MB beside traffic to it and to the GBDT, in paired windows with and without a reload."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from bench.claims.report import median
from bench.claims.tails.curve import capacity_per_s
from bench.claims.tails.loads import run_together
from bench.claims.tails.row_models import retitle
from bench.claims.tails.stand import slim
from flyball.bench.machine import HostWatch
from flyball.bench.statistics import STEAL_MAX
from flyball.bench.table import latency, size
from flyball.errors import FlyballError
from flyball.native.load_documents import Arrivals

if TYPE_CHECKING:
    from pathlib import Path

    from bench.claims.subjects import Subject
    from bench.claims.tails.stand import Stand
    from flyball.bench.process import Process
    from flyball.documents.snapshot import Bundle
    from flyball.native.load_documents import LoadResult

    Pair = dict[str, dict[str, LoadResult]]

TITLE = "reloads of 100 MB"
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
        pairs: list[Pair] = []
        took_s: list[float] = []
        steal: list[float] = []
        for turn in range(QUICK_RELOADS if stand.quick else RELOADS):
            bundle = _next_version(stand, turn)
            reload = partial(_reload, server, bundle, index.parent, took_s)
            # Another one first each time, so that what drifts falls on both alike.
            with HostWatch() as host:
                found = {kind: window(reload if kind == "with" else None) for kind in _order(turn)}
            pairs.append(found)
            steal.append(host.seen.steal_share)
            stand.tell(f"reload {turn + 1}: applied after {took_s[-1]:.2f} s; {_told(found)}")
        time.sleep(_SETTLE_S)
        after = server.rss_bytes()
    stand.keep("rates_per_s", rates)
    stand.keep("applied_s", took_s)
    stand.keep("steal_share", steal)
    stand.keep("memory_bytes", {"before": before, "after": after})
    stand.keep("pairs", [{kind: _slim(results) for kind, results in pair.items()} for pair in pairs])
    _judge_answers(stand, pairs)
    _judge_times(stand, [pair for pair, share in zip(pairs, steal, strict=True) if share <= STEAL_MAX], len(pairs))
    _judge_memory(stand, before, after)


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


def _judge_answers(stand: Stand, pairs: list[Pair]) -> None:
    results = [result for pair in pairs for window in pair.values() for result in window.values()]
    lost = sum(result.failed + result.refused + result.mismatched for result in results)
    problems = next((result.first_problem for result in results if result.first_problem), None)
    stand.report.record(
        f"{TITLE}: failed, refused or wrong in {len(pairs)}",
        f"{lost} of {sum(result.sent for result in results):,}" + (f": {problems}" if problems else ""),
        "0",
        holds=not lost,
    )


def _judge_times(stand: Stand, pairs: list[Pair], taken: int) -> None:
    """Ratios inside of pairs; a pair from which the host took too much is left out."""
    for name, told in ((stand.table.name, "the model itself"), (stand.fraud.name, "the GBDT")):
        for which, most in (("p50", P50_MAX), ("p99", P99_MAX)):
            claim, bar = f"{TITLE}, {told}: {which} with over without", f"<= {most:g} times"
            if len(pairs) < taken / 2:
                reason = f"{taken - len(pairs)} of {taken} pairs discarded for steal over {STEAL_MAX:.0%}"
                stand.report.not_measured(claim, bar, reason)
                continue
            ratios = [_at(pair["with"], name, which) / _at(pair["without"], name, which) for pair in pairs]
            plain = median([_at(pair["without"], name, which) for pair in pairs])
            figure = f"{median(ratios):.2f} times ({latency(plain)} without)"
            bar = f"{bar}, {taken - len(pairs)} pairs discarded"
            stand.report.record(claim, figure, bar, holds=median(ratios) <= most)


def _judge_memory(stand: Stand, before: int, after: int) -> None:
    figure = f"{after / before:.3f} ({size(before)}, {size(after)})"
    holds = abs(after / before - 1) <= MEMORY_WITHIN
    stand.report.record(f"{TITLE}: memory after over before", figure, f"within {MEMORY_WITHIN:.0%}", holds=holds)


def _order(turn: int) -> tuple[str, str]:
    return ("with", "without") if turn % 2 else ("without", "with")


def _at(window: dict[str, LoadResult], name: str, which: str) -> float:
    return float(getattr(window[name].latency_us, which))


def _slim(window: dict[str, LoadResult]) -> dict[str, Any]:
    return {name: slim(result) for name, result in window.items()}


def _told(pair: Pair) -> str:
    return ", ".join(f"{kind} p99 {latency(_at(window, 'fraud', 'p99'))}" for kind, window in pair.items())
