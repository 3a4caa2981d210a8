"""`flyball bench gate`: a server proves its latency contract, or the reason why it did not is told.

Proved means that the whole 95 % interval of p99 lies below the limit: an estimate that happens to be below proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from flyball.bench.statistics import STEAL_MAX, figures
from flyball.bench.table import latency
from flyball.engine import Arrivals, LoadPlan, Warmup

if TYPE_CHECKING:
    from flyball.bench.measure import Measurement, Subject
    from flyball.bench.progress import Progress
    from flyball.bench.record import Window
    from flyball.bench.scenario import Contract

_TIMEOUT_FACTOR = 20  # a timeout far above the limit, so that the tail is seen and not cut off
_TIMEOUT_MS_MIN = 1000
_KEPT_UP_MIN = 0.99


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a contract. `reasons` has one sentence for each thing that was not as promised."""

    outcome: Literal["kept", "broken", "not proven"]
    reasons: list[str]


def measure_contract(
    contract: Contract, measurement: Measurement, subject: Subject, cpus: list[int] | None, progress: Progress
) -> Verdict:
    """Run the contract's windows and judge them."""
    step = progress.begin(f"{contract.rate_per_s:,.0f}/s", contract.repeats * contract.window_s)
    windows = []
    for repeat in range(contract.repeats):
        step.update(repeat * contract.window_s, f"window {repeat + 1} of {contract.repeats}")
        windows.append(measurement.window(subject, "gate", _plan(contract, subject, cpus, seed=repeat), repeat=repeat))
    step.end(f"{contract.repeats} × {contract.window_s:g} s")
    return judge(contract, windows)


def judge(contract: Contract, windows: list[Window]) -> Verdict:
    """Hold windows against a contract."""
    found = figures(windows)
    limit_us = contract.p99_ms * 1e3
    p99, errors = found["p99"], found["error_share"].value
    broken, unproven = [], []
    if errors > contract.error_budget:
        broken.append(
            f"{errors:.3%} of the requests had no right answer, {contract.error_budget:.3%} are allowed: {_why(windows)}"
        )
    if p99.value > limit_us:
        broken.append(f"p99 is {latency(p99.value)}, above {latency(limit_us)}")
    elif p99.interval is None:
        unproven.append("too few requests for an interval of p99: make window_s or repeats larger")
    elif p99.interval.high > limit_us:
        unproven.append(
            f"p99 is {latency(p99.value)}, but may be up to {latency(p99.interval.high)}, above {latency(limit_us)}: "
            "make window_s or repeats larger"
        )
    offered = sum(window.result.offered_per_s for window in windows) / len(windows)
    if offered < contract.rate_per_s * _KEPT_UP_MIN:
        unproven.append(f"{offered:,.0f}/s were offered, not {contract.rate_per_s:,.0f}/s")
    limits = [window.result.bottleneck for window in windows if window.result.bottleneck]
    if limits:
        # A generator at its limit makes latency worse and never better: a promise kept all the same is kept.
        unproven, broken = ([*unproven, *broken, limits[0]], []) if broken else (unproven, broken)
    stolen = sum(window.host.steal_share > STEAL_MAX for window in windows)
    disturbed = f"the host took more than {STEAL_MAX:.0%} of the processor in {stolen} of {len(windows)} windows"
    reasons = broken or unproven
    if not reasons:
        return Verdict("kept", [])
    return Verdict("broken" if broken else "not proven", [*reasons, disturbed] if stolen else reasons)


def _why(windows: list[Window]) -> str:
    counts: dict[str, int] = {}
    for window in windows:
        for error in window.result.errors:
            counts[error.reason] = counts.get(error.reason, 0) + error.count
        if window.result.mismatched:
            counts["wrong answers"] = counts.get("wrong answers", 0) + window.result.mismatched
    return ", ".join(f"{count:,} × {reason}" for reason, count in sorted(counts.items(), key=lambda item: -item[1])[:3])


def _plan(contract: Contract, subject: Subject, cpus: list[int] | None, seed: int) -> LoadPlan:
    arrivals = (
        Arrivals(kind="poisson", rate_per_s=contract.rate_per_s, seed=seed)
        if contract.arrivals == "poisson"
        else Arrivals(kind="constant", rate_per_s=contract.rate_per_s)
    )
    return LoadPlan(
        url=subject.url,
        model=contract.model,
        protocol=contract.protocol,
        connections=contract.connections,
        streams=contract.streams,
        arrivals=arrivals,
        duration_s=contract.window_s,
        warmup=Warmup(least_s=0.5, most_s=5.0),
        timeout_ms=max(_TIMEOUT_MS_MIN, round(contract.p99_ms * _TIMEOUT_FACTOR)),
        cpus=cpus,
        path=subject.path,
    )
