"""The texts of a report, shared by all outputs: title, captions, notes, warnings, machine."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from flyball.bench.machine import virtual_note, warnings_of
from flyball.bench.report.summary import errors_of
from flyball.bench.statistics import BEYOND_MIN, QUANTILES, STEAL_MAX, errors_by_reason, trend
from flyball.bench.table import latency, latency_span, percent, rate, rate_span, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flyball.bench.record import BenchRecord, MachineRecord, RateKept, Window
    from flyball.bench.report.summary import Soak, SubjectFigures, Summary
    from flyball.bench.statistics import Difference, Estimate

QUANTILE_NAMES = {"p50": "p50", "p95": "p95", "p99": "p99", "p999": "p99.9", "max": "max"}
PROTOCOLS = {"http": "REST JSON", "http-binary": "REST binary", "grpc": "gRPC", "json": "REST JSON"}
_ARRIVALS = {
    "constant": "open loop, constant",
    "poisson": "open loop, Poisson",
    "burst": "open loop, bursts",
    "ramp": "open loop, ramp",
    "trace": "open loop, recorded trace",
}
_LEVEL_KINDS = ("closed", "constant", "poisson")  # others vary by design
_HIDDEN_MIN = 1.1
_REASONS_SHOWN = 3
_ONE_RATE = 1.05  # Poisson arrivals vary a little between windows


def name_of(record: BenchRecord) -> str:
    """The benchmark's name."""
    if record.scenario:
        return record.scenario.scenario
    if record.contract:
        return record.contract.contract
    compared = any(window.phase == "compare" for window in record.windows)
    return f"{record.model.name}, A against B" if compared else record.model.name


def setting(summary: Summary, *, with_load: bool = True) -> list[str]:
    """The rest of the title: protocol, arrivals and windows of the headline, cores, build."""
    record = summary.record
    windows = [window for window in record.windows if window.phase == summary.phase] or record.windows
    parts = []
    if windows:
        plan = windows[0].plan
        socket = " over a Unix socket" if plan.url.startswith("unix:") else ""
        parts.append(PROTOCOLS[plan.protocol] + socket)
        if with_load:
            parts.append(arrivals(windows[0]))
        if with_load and summary.phase:
            parts.append(f"{max(_per_subject(windows))} × {plan.duration_s:g} s")
    elif record.scenario:
        parts.append(PROTOCOLS[record.scenario.protocol])
    return [*parts, cores(record.machine), f"{record.software.profile} build"]


def arrivals(window: Window) -> str:
    """The kind of arrivals."""
    plan = window.plan
    return _ARRIVALS.get(plan.arrivals.kind) or f"closed loop, {plan.connections} connections"


def cores(machine: MachineRecord) -> str:
    """The server's cores, and whether the generator shares them."""
    server, generator = machine.server_cpus, machine.generator_cpus
    if server is None:
        return "server elsewhere"
    count = f"{len(server)} core{'s' * (len(server) != 1)}"
    if generator is None or set(server) & set(generator):
        return f"{count} (shared with the generator)"
    return f"{count} (the generator on {len(generator)} other{'s' * (len(generator) != 1)})"


def partial(record: BenchRecord) -> str | None:
    """A marker for partial records."""
    if record.status == "complete":
        return None
    return f"PARTIAL: {record.partial_reason or 'the run did not finish'}"


def rate_heading(summary: Summary) -> tuple[str, str] | None:
    """The rate column's heading in two lines; None if the column is empty."""
    if summary.record.rates_kept and summary.slo_ms:
        return "rate kept at", f"p99 ≤ {summary.slo_ms:g} ms"
    return ("answered", "a second") if any(subject.rate_per_s for subject in summary.subjects) else None


def span(estimate: Estimate | None, unit: str) -> str:
    """The interval of a latency or rate; empty if there is none."""
    if estimate is None or estimate.interval is None:
        return ""
    low, high = estimate.interval.low, estimate.interval.high
    return rate_span(low, high) if unit == "rate" else latency_span(estimate.value, low, high)


def kept_span(kept: RateKept) -> str:
    """The interval of the highest rate that meets the SLO; empty if there is none."""
    return rate_span(kept.low_per_s, kept.high_per_s) if kept.low_per_s is not None and kept.high_per_s is not None else ""


def in_short(summary: Summary) -> list[str]:
    """The first subject's result in one or two sentences."""
    if not summary.subjects:
        return []
    subject = summary.subjects[0]
    found = []
    if subject.kept and subject.kept.rate_per_s and summary.slo_ms:
        kept, interval = rate(subject.kept.rate_per_s), kept_span(subject.kept)
        certain = f" (95 % CI {interval})" if interval else ""
        found.append(f"{subject.name} keeps p99 ≤ {summary.slo_ms:g} ms up to {kept} requests per second{certain}.")
    p99 = subject.latency_us.get("p99")
    if p99 and subject.windows[0].plan.arrivals.kind != "closed":
        shown = latency(p99.value)
        unit = shown.rpartition(" ")[2]
        interval = span(p99, "latency")
        found.append(
            f"At {_offered(subject.windows)} requests per second, 99 % of the answers of {subject.name} came within {shown}"
            + (f" (95 % CI {interval} {unit})." if interval else ".")
        )
    return found


def captions(summary: Summary) -> list[str]:
    """How to read the headline: its load, the interval below a figure, the floor."""
    windows = [window for subject in summary.subjects for window in subject.windows]
    found = []
    if windows:
        spans = any(estimate.interval for subject in summary.subjects for estimate in subject.latency_us.values())
        found.append(_how_taken(windows) + " With 95 % confidence intervals." * spans)
    if contract := summary.record.contract:
        promise = f"p99 ≤ {contract.p99_ms:g} ms at {rate(contract.rate_per_s)}/s"
        found.append(f"The contract: {promise}, errors ≤ {percent(contract.error_budget)}.")
    if summary.record.floor:
        found.append("Bare ONNX Runtime has one caller and no network: the floor of a single run, not a server.")
    return found


def _how_taken(windows: Sequence[Window]) -> str:
    if windows[0].plan.arrivals.kind == "closed":
        return f"Latency in a {arrivals(windows[0])}: each request waits for the one before it."
    return f"Latency at {_offered(windows)}/s, from the time at which each request was due."


def _offered(windows: Sequence[Window]) -> str:
    offered = [window.result.offered_per_s for window in windows]
    low, high = min(offered), max(offered)
    return rate(sum(offered) / len(offered)) if high < _ONE_RATE * low else rate_span(low, high)


def overhead(record: BenchRecord) -> str:
    """The generator's overhead, included in every figure."""
    seen = record.overhead
    if seen is None:
        return "The generator's own overhead was not measured."
    note = f" ({seen.note})" if seen.note else ""
    return (
        f"The generator adds p50 {latency(seen.p50_us)}, p99 {latency(seen.p99_us)} at {rate(seen.at_rate_per_s)}/s; "
        f"highest rate {rate(seen.rate_max_per_s)}/s on this machine{note}."
    )


def host(record: BenchRecord) -> str:
    """Machine and software in one line."""
    machine, software = record.machine, record.software
    parts = [
        machine.cpu_model,
        f"{len(machine.cpus_allowed)} of {machine.cpus_online} CPUs",
        size(machine.memory_bytes),
        machine.kernel,
        machine.virtualisation,
        f"governor {machine.governor}" if machine.governor else None,
        f"ONNX Runtime {software.ort_version}" if software.ort_version else None,
        f"flyball {software.flyball_version} ({software.commit[:10]})",
    ]
    if record.windows:
        parts.append(f"steal ≤ {percent(max(window.host.steal_share for window in record.windows))}")
        parts.append(f"load ≤ {max(window.host.load_1m for window in record.windows):.1f}")
    return " · ".join(part for part in parts if part)


def command(record: BenchRecord) -> str:
    """The command line."""
    return shlex.join(record.command)


def compared(difference: Difference) -> dict[str, str]:
    """One figure of A and B."""
    shown = rate if difference.name == "rate" else latency
    low, high = difference.interval.low, difference.interval.high
    return {
        "a": shown(difference.a),
        "b": shown(difference.b),
        "ratio": f"{difference.ratio:.3f}",
        "span": f"{low:.3f}–{high:.3f}",
    }


def soak(found: Soak) -> str:
    """A memory slope as text."""
    first, last = found.samples[0], found.samples[-1]
    grew = f"{size(first.memory_bytes)} → {size(last.memory_bytes)} in {latency((last.at_s - first.at_s) * 1e6)}"
    slope = found.slope_per_h
    if slope is None or slope.interval is None:
        return f"{grew}; too few samples for a slope"
    growth = (
        f"{signed_size(slope.value)}/h (95 % CI {signed_size(slope.interval.low)} to {signed_size(slope.interval.high)})"
    )
    return f"{grew}; {growth}: {'it grows' if found.grows else 'no growth shown'}"


def signed_size(count: float) -> str:
    """A change in bytes, with its sign."""
    sign = "−" if count < 0 else "+"
    return f"{sign}{size(round(abs(count)))}"


def notes(summary: Summary) -> list[str]:
    """Notes on single figures."""
    found = [f"{subject.name}: {text}" for subject in summary.subjects for text in _notes_of(subject)]
    if any(point.few and point.bottleneck is None for point in [*summary.curve, *summary.concurrency]):
        found.append(f"~ marks a p99 with fewer than {BEYOND_MIN} answers beyond it.")
    if virtual := virtual_note(summary.record.machine):
        found.append(virtual)
    return found


def _notes_of(subject: SubjectFigures) -> list[str]:
    found = [note for note in (subject.record.note, subject.kept.note if subject.kept else None) if note]
    quantiles = subject.latency_us
    if not quantiles:
        return found
    hidden = [QUANTILE_NAMES[key] for key in QUANTILES if key not in quantiles]
    if hidden:
        found.append(f"{', '.join(hidden)} not shown: fewer than {BEYOND_MIN} answers beyond")
    bare = [QUANTILE_NAMES[key] for key in QUANTILES if key in quantiles and quantiles[key].interval is None]
    if bare:
        found.append(f"no interval for {', '.join(bare)}: too few measurements")
    if subject.service_p99_us and quantiles["p99"].value > _HIDDEN_MIN * subject.service_p99_us:
        found.append(
            f"counted from the actual send, as in a closed loop, p99 would be {latency(subject.service_p99_us)} "
            f"instead of {latency(quantiles['p99'].value)}"
        )
    return found


def warnings(summary: Summary) -> list[str]:
    """Warnings about the build and the machine, then by subject."""
    record = summary.record
    found = [] if record.software.profile == "dist" else [f"a {record.software.profile} build was measured, not dist"]
    found += warnings_of(record.machine)
    for subject in summary.subjects:
        windows = [window for window in record.windows if window.subject == subject.name]
        headline = [window for window in windows if window.phase == summary.phase and not window.result.bottleneck]
        texts = [*_ended(windows), *_bottleneck(windows), *_wrong(windows), *_steal(windows)]
        texts += [*_errors(headline), *_late(headline), *_unsteady(headline)]
        found += [f"{subject.name}: {text}" for text in texts]
    return found


def _ended(windows: Sequence[Window]) -> list[str]:
    return [f"a window ({window.phase}) ended early: {text}" for window in windows if (text := window.result.ended_early)]


def _bottleneck(windows: Sequence[Window]) -> list[str]:
    found = []
    for phase in dict.fromkeys(window.phase for window in windows):
        here = [window for window in windows if window.phase == phase]
        limits = [window.result.bottleneck for window in here if window.result.bottleneck]
        if limits:
            found.append(
                f"the generator was saturated in {_of(limits, here)} ({phase}), "
                f"which therefore do not measure the server: {limits[0]}"
            )
    return found


def _wrong(windows: Sequence[Window]) -> list[str]:
    count = sum(window.result.mismatched for window in windows)
    return [f"{count:,} wrong answer{'s' * (count != 1)}: {_first_problem(windows)}"] if count else []


def _errors(windows: Sequence[Window]) -> list[str]:
    share = errors_of(windows)
    if not share:
        return []
    worst = errors_by_reason(windows).most_common(_REASONS_SHOWN)
    reasons = ", ".join(f"{count:,} × {reason}" for reason, count in worst) or _first_problem(windows)
    return [f"{percent(share)} of requests had no correct answer: {reasons}"]


def _late(windows: Sequence[Window]) -> list[str]:
    late, answered = (sum(getattr(window.result, key) for window in windows) for key in ("past_deadline", "answered"))
    if not late:
        return []
    return [f"{percent(late / answered)} of the answers came after the deadline of {windows[0].plan.deadline_ms} ms"]


def _steal(windows: Sequence[Window]) -> list[str]:
    shares = [window.host.steal_share for window in windows if window.host.steal_share > STEAL_MAX]
    if not shares:
        return []
    most = percent(max(shares))
    return [f"CPU steal above {percent(STEAL_MAX)} in {_of(shares, windows)}, at most {most}"]


def _unsteady(windows: Sequence[Window]) -> list[str]:
    level = [window for window in windows if window.plan.arrivals.kind in _LEVEL_KINDS]
    found = []
    rough = [window for window in level if not window.result.warmup.steady]
    if rough:
        found.append(f"not steady at the end of warm-up in {_of(rough, windows)}")
    trends = [text for window in level if (text := trend(window))]
    if trends:
        found.append(f"not steady in {_of(trends, windows)}: {trends[0]}")
    return found


def _of(some: Sequence[object], windows: Sequence[Window]) -> str:
    return f"{len(some)} of {len(windows)} window{'s' * (len(windows) != 1)}"


def _first_problem(windows: Sequence[Window]) -> str:
    return next((window.result.first_problem for window in windows if window.result.first_problem), "no reason given")


def _per_subject(windows: Sequence[Window]) -> list[int]:
    names = [window.subject for window in windows]
    return [names.count(name) for name in set(names)]
