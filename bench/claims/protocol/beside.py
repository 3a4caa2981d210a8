"""Topic: a well-behaved client beside thousands of idle connections, slow heads, slow bodies and rapid stream resets."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from bench.claims.bars import at_most, none, per_s, times
from bench.claims.claim import Claim, Figure, NotMeasuredError, Raw, Topic
from bench.claims.figures import median_over
from bench.claims.ratios import P50_BESIDE_MAX
from flyball.bench.process import on_cpus
from flyball.bench.run import run_load
from flyball.errors import FlyballError
from flyball.native.load_documents import Arrivals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench.claims.tails.stand import Stand
    from flyball.bench.process import Process
    from flyball.native.load_documents import LoadResult

RATE_PER_S, CONNECTIONS = 2_000.0, 16
WINDOW_S, REPEATS = 6.0, 7
IDLE_WANTED, SLOW, RESETTING, RESETS_PER_S = 10_000, 500, 10, 10_000
ACHIEVED_MIN = 0.9  # of a crowd's rate, in each window
_FILES_LEFT = 500  # for everything else that a process has open
_STANDING_S = 60.0
ALONE, WINDOWS, CROWDS = "alone", "windows", "crowds"


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to behave badly."""

    name: str
    connections: int
    words: str


def kinds() -> list[Kind]:
    """All of them, as many as the file limit allows; who is started from here on has the raised limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    idle = min(IDLE_WANTED, hard - _FILES_LEFT)
    return [
        Kind("idle", idle, f"{idle:,} idle connections"),
        Kind("slow-heads", SLOW, _BESIDE["slow-heads"]),
        Kind("slow-bodies", SLOW, _BESIDE["slow-bodies"]),
        Kind("resets", RESETTING, _BESIDE["resets"]),
    ]


def measure(stand: Stand) -> None:
    """The GBDT at one rate, alone and beside each kind, in turn."""
    crowds, fraud, seeds = kinds(), stand.fraud, count(1)
    stood: dict[str, list[dict[str, float]]] = {kind.name: [] for kind in crowds}
    with stand.serve(fraud, more=["--config", str(_config(stand))]) as server:

        def window(kind: Kind | None) -> LoadResult:
            arrivals = Arrivals(kind="poisson", rate_per_s=RATE_PER_S, seed=next(seeds))
            plan = fraud.plan(server, CONNECTIONS, arrivals=arrivals, duration_s=stand.seconds(WINDOW_S))
            if kind is None:
                return run_load(plan, fraud.payloads)
            with standing(kind, server, stand.generator_cpus) as told:
                result = run_load(plan, fraud.payloads)
            stood[kind.name].append(told)
            return result

        sides = {ALONE: lambda: window(None), **{kind.name: lambda kind=kind: window(kind) for kind in crowds}}  # type: ignore[misc]
        stand.keep(WINDOWS, stand.in_turn(sides, REPEATS))
    stand.keep(CROWDS, stood)


@contextmanager
def standing(kind: Kind, server: Process, cpus: list[int]) -> Iterator[dict[str, float]]:
    """A crowd that stands beside; what it tells at its end is filled in then."""
    told: dict[str, float] = {}
    where = server.url.removeprefix("http://")
    command = [sys.executable, "-m", "bench.claims.protocol.crowd", kind.name, where, str(kind.connections)]
    with on_cpus(cpus):
        crowd = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert crowd.stdout is not None  # noqa: S101 - asked for above
        if crowd.stdout.readline().strip() != "standing":
            raise FlyballError(f"the crowd of {kind.words} does not stand: exit {crowd.wait(_STANDING_S)}")
        yield told
        said, _ = crowd.communicate("end\n", timeout=_STANDING_S)
        told.update(json.loads(said))
    finally:
        crowd.kill()
        crowd.wait()


def _config(stand: Stand) -> Any:
    """Room for the crowd; every other limit as it comes."""
    path = stand.folder / "crowd.json"
    most = 2 * IDLE_WANTED
    path.write_text(json.dumps({"connections_max": most, "connections_per_address_max": most}))
    return path


def _lost(raw: Raw) -> Figure:
    sides = raw.windows(WINDOWS)
    beside = [name for name in sides.found if name != ALONE]
    return Figure(sides.total(beside, "failed", "refused", "mismatched"), f"of {sides.total(beside, 'sent'):,}")


def _dropped(raw: Raw) -> Figure:
    """Idle connections that the server ended, at worst."""
    stood = raw[CROWDS]["idle"]
    wanted = max((told["connections"] for told in stood), default=0)
    if wanted < IDLE_WANTED:
        raise NotMeasuredError(f"the limit on open files allows {wanted:,} connections")
    return Figure(wanted - min(told["open"] for told in stood), f"of {wanted:,}")


def _beside(name: str) -> Callable[[Raw], Figure]:
    """p50 beside over alone, if the crowd was as bad in each window as it is said to be."""
    p50 = median_over(WINDOWS, name, ALONE, key="latency_us.p50")

    def figure(raw: Raw) -> Figure:
        connections, achieved = _least(raw[CROWDS][name], name)
        figure = p50(raw)
        if connections < _CONNECTIONS[name]:
            raise NotMeasuredError(f"{connections:,} of {_CONNECTIONS[name]:,} connections: the limit on open files")
        if name not in _PER_S:
            return figure
        told = f"{figure.beside}; at least {per_s(achieved)} of {per_s(_PER_S[name])} were sent"
        if achieved < ACHIEVED_MIN * _PER_S[name]:
            raise NotMeasuredError(told)
        return Figure(figure.value, told)

    return figure


def _least(stood: Sequence[Mapping[str, float]], name: str) -> tuple[int, float]:
    """The fewest connections and the lowest rate of a crowd, over all windows, discarded ones as well."""
    what = "resets" if name == "resets" else "sent"
    rates = [told[what] / told["lasted_s"] for told in stood]
    return min((int(told["connections"]) for told in stood), default=0), min(rates, default=0.0)


_BESIDE = {
    "idle": f"{IDLE_WANTED:,} idle connections",
    "slow-heads": f"{SLOW:,} heads of a byte a second",
    "slow-bodies": f"{SLOW:,} bodies of a byte a second",
    "resets": f"{RESETS_PER_S:,} stream resets a second",
}
_CONNECTIONS = {"idle": IDLE_WANTED, "slow-heads": SLOW, "slow-bodies": SLOW, "resets": RESETTING}
_PER_S = {"slow-heads": SLOW, "slow-bodies": SLOW, "resets": RESETS_PER_S}
TOPIC = Topic(
    "beside",
    measure,
    subject=f"GBDT at {RATE_PER_S:,.0f}/s, open loop, {CONNECTIONS} connections, beside clients that behave badly",
    sample=f"{REPEATS} windows of {WINDOW_S:g} s a side, in turn",
    claims=(
        *(
            Claim(
                name,
                f"beside {words}: p50 over alone",
                at_most(P50_BESIDE_MAX, times),
                _beside(name),
            )
            for name, words in _BESIDE.items()
        ),
        Claim("lost", "beside all of these: requests that failed, were refused or answered wrongly", none(), _lost),
        Claim("idle-held", "idle connections that the server dropped", none(), _dropped),
    ),
)
