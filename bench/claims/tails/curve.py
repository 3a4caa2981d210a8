"""Part of the topic overload: correct answers in time against the offered load, for flyball and its rivals.

A multiple is of each server's own closed-loop rate, so that the shapes can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.claims.tails.loads import goodput_of
from bench.claims.tails.rivals import FASTAPI, TRITON, missing, prepare
from bench.claims.tails.stand import words
from bench.claims.windows import as_json
from flyball.bench.run import run_load
from flyball.native.load_documents import Arrivals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from bench.claims.subjects import Subject
    from bench.claims.tails.stand import Stand
    from flyball.bench.process import Process
    from flyball.native.load_documents import LoadResult

MULTIPLES = (0.5, 0.8, 1.0, 1.3, 1.6, 2.0)
WINDOW_S, CLOSED_CONNECTIONS, CONNECTIONS = 4.0, 16, 128
_CLOSED_S, _CLOSED_REPEATS = 2.0, 3


@dataclass(frozen=True, slots=True)
class Callers:
    """Who asks: connections of the closed loop that finds the capacity, and what the open loop's plan has otherwise."""

    closed_connections: int = CLOSED_CONNECTIONS
    plan: Mapping[str, Any] = field(default_factory=dict)


def capacity_per_s(stand: Stand, subject: Subject, server: Process, connections: int = CLOSED_CONNECTIONS) -> float:
    """What a closed loop gets, the middle of some windows."""
    seconds = stand.seconds(_CLOSED_S)
    rates = [subject.load(server, connections, duration_s=seconds).rate_per_s for _ in range(stand.repeats(_CLOSED_REPEATS))]
    return median(rates)


def offered(
    stand: Stand, subject: Subject, server: Process, rate_per_s: float, deadline_ms: int, **changes: Any
) -> LoadResult:
    """A window of an open loop with a deadline, whatever comes back."""
    given = {
        "arrivals": Arrivals(kind="poisson", rate_per_s=rate_per_s, seed=1),
        "duration_s": stand.seconds(WINDOW_S),
        "deadline_ms": deadline_ms,
        "timeout_ms": max(1000, 2 * deadline_ms),
        **changes,
    }
    return run_load(subject.plan(server, CONNECTIONS).model_copy(update=given), subject.payloads)


def draw_curve(
    stand: Stand,
    name: str,
    subject: Subject,
    start: Callable[[], AbstractContextManager[Process]],
    deadline_ms: int,
    *,
    callers: Callers | None = None,
) -> dict[str, Any]:
    """One server at every multiple; started anew for each, because one without admission still works off the last."""
    callers = callers or Callers()
    with start() as server:
        capacity = capacity_per_s(stand, subject, server, callers.closed_connections)
    points = []
    for multiple in MULTIPLES:
        with start() as server:
            result = offered(stand, subject, server, multiple * capacity, deadline_ms, **callers.plan)
        window = as_json(result)
        stand.tell(f"{name} at {multiple:g} times {capacity:,.0f}/s: {goodput_of(window):,.0f}/s in time; {words(result)}")
        points.append({"multiple": multiple, "goodput_per_s": goodput_of(window), **window})
    return {"capacity_per_s": capacity, "points": points}


def rivals_curves(stand: Stand, subject: Subject, deadline_ms: int) -> dict[str, Any]:
    """The curves of FastAPI and Triton, each in its fastest setting, or the reason why there is none."""
    curves: dict[str, Any] = {}
    for name in (FASTAPI, TRITON):
        if reason := missing(name):
            curves[name] = {"missing": reason}
            continue
        rival = prepare(stand, name, subject)
        curve = draw_curve(stand, name, rival.subject, partial(rival.start, stand.server_cpus), deadline_ms)
        curves[name] = {**curve, **rival.told}
    return curves
