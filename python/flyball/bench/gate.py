"""`flyball bench gate`: proves a server's latency contract, or reports why it is not proven.

A contract is proven if the whole 95 % intervals of p99 and of the error share are below their limits: an estimate below the
limit alone proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from flyball.bench.statistics import STEAL_MAX, Estimate, errors_by_reason, figures
from flyball.bench.table import latency
from flyball.native.load_documents import Arrivals, LoadPlan, Warmup

if TYPE_CHECKING:
    from flyball.bench.measure import Measurement, Subject
    from flyball.bench.progress import Progress
    from flyball.bench.record import Window
    from flyball.bench.scenario import Contract

_TIMEOUT_FACTOR = 20  # far above the limit, so that the tail is measured and not cut off
_TIMEOUT_MS_MIN = 1000
_MORE = "increase window_s or repeats"


Outcome = Literal["kept", "broken", "not proven"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for a contract. `reasons` has one sentence per violation."""

    outcome: Outcome
    reasons: list[str]


def measure_contract(
    contract: Contract, measurement: Measurement, subject: Subject, cpus: list[int] | None, progress: Progress
) -> Verdict:
    """Run the contract's windows and evaluate them."""
    step = progress.begin(f"{contract.rate_per_s:,.0f}/s", contract.repeats * contract.window_s)
    windows = []
    for repeat in range(contract.repeats):
        step.update(repeat * contract.window_s, f"window {repeat + 1} of {contract.repeats}")
        windows.append(measurement.window(subject, "gate", _plan(contract, subject, cpus, seed=repeat), repeat=repeat))
    step.end(f"{contract.repeats} × {contract.window_s:g} s")
    return evaluate(contract, windows)


def evaluate(contract: Contract, windows: list[Window]) -> Verdict:
    """Evaluate windows against a contract."""
    found = figures(windows)
    parts = [_latency(contract, found["p99"]), _errors(contract, found["error_share"], windows)]
    if all(part.outcome == "kept" for part in parts):
        return Verdict("kept", [])
    reasons = [reason for part in parts for reason in part.reasons]
    outcome: Outcome = "broken" if any(part.outcome == "broken" for part in parts) else "not proven"
    limit = next((window.result.bottleneck for window in windows if window.result.bottleneck), None)
    if limit:
        # A saturated generator makes figures worse, never better: a violation may not be the server's.
        outcome, reasons = "not proven", [*reasons, limit]
    stolen = sum(window.host.steal_share > STEAL_MAX for window in windows)
    if stolen:
        reasons.append(f"CPU steal above {STEAL_MAX:.0%} in {stolen} of {len(windows)} windows")
    return Verdict(outcome, reasons)


def _latency(contract: Contract, p99: Estimate) -> Verdict:
    limit_us = contract.p99_ms * 1e3
    if p99.value > limit_us:
        return Verdict("broken", [f"p99 is {latency(p99.value)}, limit {latency(limit_us)}"])
    if p99.interval is None:
        return Verdict("not proven", [f"too few answers for an interval of p99: {_MORE}"])
    if p99.interval.high > limit_us:
        may = (
            f"p99 is {latency(p99.value)}, but its interval reaches {latency(p99.interval.high)}, limit {latency(limit_us)}"
        )
        return Verdict("not proven", [f"{may}: {_MORE}"])
    return Verdict("kept", [])


def _errors(contract: Contract, share: Estimate, windows: list[Window]) -> Verdict:
    allowed = f"{contract.error_budget:.3%} allowed"
    if share.value > contract.error_budget:
        return Verdict("broken", [f"{share.value:.3%} of the requests had no correct answer, {allowed}: {_why(windows)}"])
    if share.interval is None or share.interval.high > contract.error_budget:
        most = f"up to {share.interval.high:.3%}" if share.interval else "any share"
        return Verdict("not proven", [f"{most} of the requests may have no correct answer, {allowed}: {_MORE}"])
    return Verdict("kept", [])


def _why(windows: list[Window]) -> str:
    counts = errors_by_reason(windows)
    counts["wrong answers"] += sum(window.result.mismatched for window in windows)
    return ", ".join(f"{count:,} × {reason}" for reason, count in (+counts).most_common(3))


def _plan(contract: Contract, subject: Subject, cpus: list[int] | None, seed: int) -> LoadPlan:
    drawn = seed if contract.arrivals == "poisson" else None
    return LoadPlan(
        url=subject.url,
        model=contract.model,
        protocol="json" if contract.protocol == "decision" else contract.protocol,
        connections=contract.connections,
        streams=contract.streams,
        arrivals=Arrivals(kind=contract.arrivals, rate_per_s=contract.rate_per_s, seed=drawn),
        duration_s=contract.window_s,
        warmup=Warmup(least_s=0.5, most_s=5.0),
        timeout_ms=max(_TIMEOUT_MS_MIN, round(contract.p99_ms * _TIMEOUT_FACTOR)),
        cpus=cpus,
        path=subject.path,
    )
