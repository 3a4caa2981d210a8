"""Topic: requests per second of a closed loop, against flyball without batching, the bare run, FastAPI and Triton."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from bench.claims.report import discarded, median
from bench.claims.tails.rivals import FASTAPI, TRITON, asked, rival, triton_missing
from bench.claims.tails.stand import raw
from flyball.documents.snapshot import Limits, Terms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench.claims.subjects import Subject
    from bench.claims.tails.stand import Stand
    from flyball.bench.process import Process

CONNECTIONS, WINDOW_S, REPEATS = 16, 3.0, 5
OVER_UNBATCHED_MIN = 3.0
UNBATCHED_OF_BARE_MIN = 0.85
OURS, UNBATCHED, BARE = "flyballd", "flyballd, batching off", "one over the bare run"
_UNBATCHED = Terms(limits=Limits(batch_rows_max=1))


@dataclass(frozen=True, slots=True)
class Bars:
    """What one model must reach: times the rivals' rates, and a rate on two cores that the generator shares."""

    title: str
    over_fastapi: float
    over_triton: float
    shared_per_s: float


BARS = {"mlp": Bars("MLP 12 MB", 8.0, 1.3, 11_000), "fraud": Bars("GBDT JSON", 18.0, 2.0, 45_000)}


@dataclass(frozen=True, slots=True)
class Over:
    """A claim that one side is so many times the best of others."""

    claim: str
    ours: str
    others: tuple[str, ...]
    least: float

    @property
    def bar(self) -> str:
        """In words."""
        return f">= {self.least:g} times"

    def record(self, stand: Stand, rates: Mapping[str, float], note: str) -> None:
        """Without rates the note says why there are none."""
        if not rates:
            stand.report.not_measured(self.claim, self.bar, note)
            return
        other = max(self.others, key=lambda name: rates[name])
        ratio = rates[self.ours] / rates[other]
        figure = f"{ratio:.2f} times ({rates[self.ours]:,.0f}/s, {other} {rates[other]:,.0f}/s)"
        stand.report.record(self.claim, figure, f"{self.bar}, {note}", holds=ratio >= self.least)


def measure(stand: Stand) -> None:
    """Each model with the generator on other cores, then on two cores that all share."""
    for subject in (stand.mlp, stand.fraud):
        _apart(stand, subject, BARS[subject.name])
    for subject in (stand.mlp, stand.fraud):
        _shared(stand, subject, BARS[subject.name])


def _apart(stand: Stand, subject: Subject, bars: Bars) -> None:
    missing = triton_missing()
    rivals = [*FASTAPI, *(() if missing else TRITON)]
    with ExitStack() as stack:
        sides: dict[str, Callable[[], float]] = {
            OURS: partial(_rate, stand, subject, stack.enter_context(stand.serve(subject)))
        }
        if subject.name == stand.mlp.name:
            unbatched = stack.enter_context(stand.serve(subject, terms=_UNBATCHED))
            sides[UNBATCHED] = partial(_rate, stand, subject, unbatched)
            sides[BARE] = lambda: float(stand.bare(subject, WINDOW_S).rate_per_s)
        for name in rivals:
            server = stack.enter_context(rival(name, subject, stand.server_cpus))
            sides[name] = partial(_rate, stand, asked(name, subject), server)
        windows = stand.in_turn(sides, REPEATS)
    stand.keep(f"{subject.name}, apart, per_s", raw(windows))
    doubt = stand.doubt(windows)
    rates = {} if doubt else {name: median(found.values) for name, found in windows.items()}
    comparisons = [Over(f"{bars.title}: over the better FastAPI", OURS, tuple(FASTAPI), bars.over_fastapi)]
    if UNBATCHED in sides:
        comparisons.append(Over(f"{bars.title}: over batching off", OURS, (UNBATCHED,), OVER_UNBATCHED_MIN))
        comparisons.append(Over(f"{bars.title}, batching off: of {BARE}", UNBATCHED, (BARE,), UNBATCHED_OF_BARE_MIN))
    triton = Over(f"{bars.title}: over Triton with ONNX Runtime", OURS, tuple(TRITON), bars.over_triton)
    if missing:
        stand.report.not_measured(triton.claim, triton.bar, missing)
    else:
        comparisons.append(triton)
    for comparison in comparisons:
        comparison.record(stand, rates, doubt or discarded(windows))


def _shared(stand: Stand, subject: Subject, bars: Bars) -> None:
    """Two lanes on two cores with the generator beside them, pinned to neither."""
    cores = sorted(os.sched_getaffinity(0))
    claim, bar = f"{bars.title}: two lanes, two cores, shared", f">= {bars.shared_per_s:,.0f}/s"
    with ExitStack() as stack:
        ours = stack.enter_context(stand.serve(subject, lanes=2, cpus=cores[:2]))
        servers = {OURS: ours, **{name: stack.enter_context(rival(name, subject, cores[:2])) for name in FASTAPI}}
        load = partial(_rate, stand, subject, cpus=cores[:2])
        windows = stand.in_turn({name: partial(load, server) for name, server in servers.items()}, REPEATS)
    stand.keep(f"{subject.name}, shared, per_s", raw(windows))
    if doubt := stand.doubt(windows):
        stand.report.not_measured(claim, bar, doubt)
        return
    rates = {name: median(found.values) for name, found in windows.items()}
    figure = f"{rates[OURS]:,.0f}/s, FastAPI {max(rates[name] for name in FASTAPI):,.0f}/s"
    if len(cores) != 2:
        stand.report.not_measured(claim, bar, f"the bar is for machines with two cores; measured here: {figure}")
    else:
        stand.report.record(claim, figure, f"{bar}, {discarded(windows)}", holds=rates[OURS] >= bars.shared_per_s)


def _rate(stand: Stand, subject: Subject, server: Process, **changes: object) -> float:
    return subject.load(server, CONNECTIONS, duration_s=stand.seconds(WINDOW_S), **changes).rate_per_s
