"""Topic: other tools' closed loops against ours on the same servers: same connections, one thread, alternating windows."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from bench.claims import tools
from bench.claims.bars import at_most, shown, times
from bench.claims.bench import subjects
from bench.claims.bench.subjects import CONNECTIONS, SERVICE_US, echo
from bench.claims.claim import Claim, Figure, NotMeasuredError, Topic
from bench.claims.subjects import flyballd
from bench.parts.here import NotHereError
from bench.peers.peers import Setting, choose, install, payloads_for, serving
from flyball.bench.overhead import unchecked
from flyball.bench.process import split_cpus
from flyball.bench.run import run_load
from flyball.bench.statistics import mean_interval
from flyball.errors import FlyballError
from flyball.native.load_documents import LoadPlan, Warmup

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.claims.claim import Raw
    from bench.claims.subjects import Subject
    from bench.claims.tails.stand import Stand

    Loop = Callable[[], tools.ClosedLoop]

ROUNDS, WINDOW_S = 8, 2.0
SPREAD_MAX = 1.25  # an interval that is wider agrees with anything
_WARMUP = Warmup(least_s=0.3, most_s=0.3)
OTHERS = {"wrk": tools.run_wrk, "oha": tools.run_oha}


def measure(stand: Stand) -> None:
    """On a server with a known service time, on flyballd, and on Triton for perf_analyzer."""
    gbdt, seconds = subjects.gbdt(stand), stand.seconds(WINDOW_S)
    line = gbdt.payloads.splitlines()[0].decode()
    body = json.dumps({"id": "1", "inputs": json.loads(line)["inputs"]}, separators=(",", ":"))
    # wrk takes whole seconds.
    setting: dict[str, Any] = {"connections": CONNECTIONS, "seconds": max(seconds, 1.0), "cpus": split_cpus()[1]}
    with echo("--service-us", SERVICE_US) as server:
        ours = partial(_ours, server.url, gbdt.name, unchecked(gbdt.payloads, 1), seconds, path="/")
        for name, run in OTHERS.items():
            _ratios(stand, name, ours, partial(run, f"{server.url}/", body, **setting))
    with flyballd(gbdt, stand.folder) as server:
        ours = partial(_ours, server.url, gbdt.name, line.encode(), seconds)
        url = f"{server.url}/v2/models/{gbdt.name}/infer"
        for name, run in OTHERS.items():
            _ratios(stand, f"{name}-flyballd", ours, partial(run, url, body, **setting))
    _against_triton(stand, gbdt, line, setting)


def _against_triton(stand: Stand, gbdt: Subject, line: str, setting: dict[str, Any]) -> None:
    """perf_analyzer needs a model configuration first, which Triton has."""
    (triton,) = choose(["triton"])
    reason = install(triton)
    if isinstance(reason, str):
        stand.not_measured(f"Triton did not install: {reason}", "perf-analyzer")
        return
    with serving(triton, f"{gbdt.name}={gbdt.path}", Setting(workers=1), split_cpus()[0]) as server:
        rows = payloads_for(triton, line.encode())
        ours = partial(_ours, server.url, gbdt.name, rows, setting["seconds"], protocol="http-binary")
        _ratios(stand, "perf-analyzer", ours, partial(tools.run_perf_analyzer, server.url, gbdt.name, line, **setting))


def _ours(url: str, model: str, rows: bytes, seconds: float, **changes: Any) -> tools.ClosedLoop:
    plan = LoadPlan(
        url=url,
        model=model,
        connections=CONNECTIONS,
        duration_s=seconds,
        warmup=_WARMUP,
        cpus=split_cpus()[1],
        **changes,
    )
    result = run_load(plan, rows)
    if result.failed or result.mismatched or result.refused:
        raise FlyballError(f"{url}: {result.first_problem}")
    return tools.ClosedLoop(result.rate_per_s, result.latency_us.p50)


def _ratios(stand: Stand, name: str, ours: Loop, theirs: Loop) -> None:
    """Their rate and ours, round by round."""
    rounds: list[dict[str, float]] = []
    for turn in range(stand.repeats(ROUNDS)):
        try:
            # Alternate the order, so that drift affects both alike.
            first, second = (theirs(), ours()) if turn % 2 else (ours(), theirs())
        except NotHereError as missing:
            stand.not_measured(missing.message, name)
            return
        there, here = (first, second) if turn % 2 else (second, first)
        rounds.append({"theirs_per_s": there.rate_per_s, "ours_per_s": here.rate_per_s})
    stand.keep(name, rounds)


def _over_ours(name: str, *, judged: bool) -> Callable[[Raw], Figure]:
    def figure(raw: Raw) -> Figure:
        found = mean_interval([one["theirs_per_s"] / one["ours_per_s"] for one in raw[name]])
        interval = found.interval
        if interval is None:
            raise NotMeasuredError(f"{len(raw[name])} rounds give no interval")
        told = f"{found.value:.3f}, {interval.low:.3f} to {interval.high:.3f}"
        if not judged:
            return Figure(found.value, told)
        if interval.high / interval.low > SPREAD_MAX:
            raise NotMeasuredError(f"too noisy here to tell: {told}")
        return Figure(max(interval.low, 1 / interval.high), told)

    return figure


_AGREE = "rate over ours: how far 1 is outside the 95 % interval"
_WHERE = {
    "wrk": f"wrk, {SERVICE_US} µs a request",
    "oha": f"oha, {SERVICE_US} µs a request",
    "perf-analyzer": "perf_analyzer, Triton",
}
TOPIC = Topic(
    "tools",
    measure,
    subject=f"closed loops, {CONNECTIONS} connections, one thread, on the same server as ours",
    sample=f"{ROUNDS} rounds of {WINDOW_S:g} s each, in turn",
    claims=(
        *(
            Claim(name, f"{words}: {_AGREE}", at_most(1, times), _over_ours(name, judged=True))
            for name, words in _WHERE.items()
        ),
        *(
            Claim(
                f"{name}-flyballd",
                f"{name}, flyballd with the GBDT: rate over ours; performance.md says why it differs",
                shown(times),
                _over_ours(f"{name}-flyballd", judged=False),
            )
            for name in OTHERS
        ),
    ),
)
