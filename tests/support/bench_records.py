"""Synthetic benchmark records: seeded latencies in real histograms, for reports without a server."""

from datetime import UTC, datetime, timedelta

import numpy as np

from flyball.bench.record import BenchRecord, Window
from flyball.native.load_documents import LoadPlan, LoadResult
from tests.support.bench_windows import encoded

_INTERVALS = 20
_STAGES = {
    "parse": 6.0,
    "route": 0.4,
    "admit": 0.6,
    "features": 0.0,
    "tensor": 3.0,
    "queue": 22.0,
    "infer": 41.0,
    "policy": 0.0,
    "record": 0.0,
    "respond": 5.0,
}
_BEGUN = datetime(2026, 11, 15, 7, 31, tzinfo=UTC)


def latencies(count, median_us, *, spread=0.35, seed=0):
    """So many latencies with a long tail."""
    return median_us * np.random.default_rng(seed).lognormal(0.0, spread, count)


def load_result(latency_us, *, rate_per_s=2000.0, service_us=None, refused=0, failed=0, mismatched=0, **changes):
    """A result of the generator for these latencies of right answers, evenly over the window."""
    service = latency_us if service_us is None else service_us
    answered = len(latency_us)
    sent = answered + refused + failed + mismatched
    elapsed_s = sent / rate_per_s
    document = {
        "sent": sent,
        "answered": answered,
        "refused": refused,
        "failed": failed,
        "mismatched": mismatched,
        "timed_out": 0,
        "past_deadline": 0,
        "first_problem": None,
        "errors": [{"reason": "503 lane_full", "count": refused}] * bool(refused)
        + [{"reason": "connection reset", "count": failed}] * bool(failed),
        "offered_per_s": rate_per_s,
        "elapsed_s": elapsed_s,
        "rate_per_s": answered / elapsed_s,
        "latency_us": _figures(latency_us),
        "service_us": _figures(service),
        "histogram": encoded(latency_us),
        "service_histogram": encoded(service),
        "late_share": 0.0,
        "bottleneck": None,
        "generator": {
            "threads": 1,
            "busy_share": 0.3,
            "starved_share": 0.0,
            "waited_share": 0.0,
            "lateness_us": _figures(np.array([9.0, 20.0])),
        },
        "warmup": {"used_s": 0.6, "steady": True},
        "ended_early": None,
        "timeline": _timeline(latency_us, elapsed_s, refused, failed),
    }
    return LoadResult.model_validate(document | changes)


def window(subject="flyball", phase="steady", *, count=4000, median_us=200.0, repeat=0, seed=0, **given):
    """One window. `plan`, `host`, `server` and `memory` may be given; the rest goes to the result."""
    parts = {key: given.pop(key) for key in ("host", "server", "memory") if key in given}
    rate_per_s = given.get("rate_per_s", 2000.0)
    plan = {"arrivals": {"kind": "poisson", "rate_per_s": rate_per_s, "seed": 1}, **given.pop("plan", {})}
    latency_us = given.pop("latency_us", None)
    if latency_us is None:
        latency_us = latencies(count, median_us, seed=seed + 1000 * repeat)
    result = load_result(latency_us, **given)
    base = {"url": "http://127.0.0.1:8080", "model": "fraud", "connections": 32, "duration_s": round(result.elapsed_s, 3)}
    return Window(
        subject=subject,
        phase=phase,
        repeat=repeat,
        started_at=_BEGUN + timedelta(seconds=10 * repeat),
        plan=LoadPlan.model_validate(base | plan),
        result=result,
        **({"host": {"steal_share": 0.002, "load_1m": 1.4}} | parts),
    )


def server_side(count=4000, **times_us):
    """The server's own view; stages may be given other means."""
    stages = [stage_time(name, count, mean_us) for name, mean_us in (_STAGES | times_us).items()]
    whole = stage_time("whole", count, sum(stage["mean_us"] for stage in stages) + 1.0)
    return {"whole": whole, "stages": stages, "mean_batch_rows": 1.8}


def stage_time(name, count, mean_us):
    """Times of one stage."""
    return {"stage": name, "count": count, "mean_us": mean_us, "p50_us": mean_us * 0.9, "p99_us": mean_us * 3.1}


def record(windows=(), *, subjects=("flyball",), **parts):
    """A whole record; a subject is a name or all of its fields."""
    known = [{"name": subject} if isinstance(subject, str) else subject for subject in subjects]
    document = {
        "status": "complete",
        "partial_reason": None,
        "created_at": _BEGUN,
        "command": ["flyball", "bench", "--scenario", "fraud-gbdt"],
        "scenario": scenario(),
        "machine": {
            "cpu_model": "Imaginary CPU @ 3.1 GHz",
            "cpu_flags": ["avx2", "avx512f", "amx_int8"],
            "cpus_online": 4,
            "cpus_allowed": [0, 1],
            "server_cpus": [0, 1],
            "generator_cpus": [0, 1],
            "governor": "performance",
            "kernel": "Linux 6.8.0",
            "virtualisation": "kvm",
            "memory_bytes": 8_000_000_000,
            "cgroup_cpu_quota": 2.0,
            "cgroup_memory_bytes": None,
        },
        "software": {
            "flyball_version": "0.1.0",
            "commit": "0123456789abcdef",
            "profile": "dist",
            "target": "x86_64-unknown-linux-gnu",
            "rustc": "rustc 1.93.0",
            "ort_version": "1.30.0",
            "python": "3.11.9",
        },
        "model": {"name": "fraud", "digest": "sha256:3f9c", "size_bytes": 1_100_000},
        "payloads": {"source": "maker", "seed": 11, "count": 2000, "checked": True, "digest": "sha256:77aa"},
        "subjects": known,
        "windows": list(windows),
    }
    return BenchRecord.model_validate(document | parts)


def scenario(**changes):
    """A published scenario, or one that differs from it."""
    return {
        "scenario": "fraud-gbdt",
        "about": "Card payments, 300 trees.",
        "model": {"make": "fraud-gbdt", "name": "fraud"},
        "slo": {"p99_ms": 5.0},
        "steady": {"rate_per_s": 2000.0, "repeats": 3, "window_s": 2.0},
    } | changes


def kept(subject="flyball", rate_per_s=12_400.0, **changes):
    """What a search found."""
    estimates = [0.97 * rate_per_s, rate_per_s, 1.03 * rate_per_s]
    found = {"rate_per_s": rate_per_s, "low_per_s": 0.95 * rate_per_s, "high_per_s": 1.05 * rate_per_s}
    return {"subject": subject, "estimates_per_s": estimates} | found | changes


def full_record(subjects=("flyball",), **parts):
    """Every phase, measured on each subject; later subjects are slower."""
    windows, told, rates = [], [], []
    for place, name in enumerate(subjects):
        slower = 1.8**place
        peak = 12_400.0 / slower**1.5
        windows += [_steady(name, repeat, 180.0 * slower, seed=place, own=place == 0) for repeat in range(3)]
        for share in (0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25):
            windows.append(_swept(name, share, peak, 180.0 * slower))
        for connections in (1, 2, 4, 8, 16, 32, 64):
            windows.append(_closed(name, connections, peak, 120.0 * slower))
        samples = [{"at_s": 10.0 * at, "memory_bytes": 61_000_000 + 900 * at * (at % 7)} for at in range(60)]
        windows.append(window(name, "soak", median_us=190.0 * slower, memory=samples))
        told.append({"name": name, "cold_start_s": 0.21 * slower, "memory_bytes": round(6.1e7 * slower), "version": "1.2.3"})
        rates.append(kept(name, peak))
    phases = {"search": {}, "curve": {}, "concurrency": {}, "soak": {"rate_per_s": 500.0}}
    given = {
        "scenario": scenario(**phases),
        "rates_kept": rates,
        "floor": {"rate_per_s": 31_000.0, "p50_us": 31.0, "p99_us": 44.0},
        "overhead": {"p50_us": 42.0, "p99_us": 90.0, "at_rate_per_s": 1000.0, "rate_max_per_s": 61_000.0},
    }
    return record(windows, subjects=told, **(given | parts))


def _steady(name, repeat, median_us, *, seed, own):
    service = latencies(4000, median_us, seed=seed + 1000 * repeat)
    latency_us = service.copy()
    latency_us[1000:1120] += np.linspace(9000.0, 0.0, 120)  # a stall: those due meanwhile wait for its end
    view = {"server": server_side()} if own else {}
    return window(name, latency_us=latency_us, service_us=service, repeat=repeat, refused=3 * seed, **view)


def _swept(name, share, peak, median_us):
    loaded = median_us / max(1.02 - 0.9 * share, 0.02)
    limit = "the generator was busy 98 % of the time" if share > 1.2 and median_us < 200 else None
    rate_per_s = share * peak
    count = min(3000, int(2 * rate_per_s))
    return window(
        name, "curve", count=count, median_us=loaded, rate_per_s=rate_per_s, seed=int(100 * share), bottleneck=limit
    )


def _closed(name, connections, peak, alone_us):
    rate_per_s = peak * 1.3 * (1 - 0.75**connections)
    median_us = max(alone_us, connections / rate_per_s * 1e6)
    plan = {"arrivals": {"kind": "closed"}, "connections": connections}
    return window(name, "concurrency", count=2000, median_us=median_us, rate_per_s=rate_per_s, plan=plan, seed=connections)


def _figures(values_us):
    if not len(values_us):
        return dict.fromkeys(("p50", "p95", "p99", "p999", "max", "mean"), 0.0)
    p50, p95, p99, p999 = np.quantile(values_us, (0.5, 0.95, 0.99, 0.999))
    return {"p50": p50, "p95": p95, "p99": p99, "p999": p999, "max": values_us.max(), "mean": values_us.mean()}


def _timeline(latency_us, elapsed_s, refused, failed):
    """Intervals of equal length; what went wrong, went wrong in the middle."""
    found = []
    for place, part in enumerate(np.array_split(latency_us, _INTERVALS)):
        middle = place == _INTERVALS // 2
        counts = {"refused": refused * middle, "failed": failed * middle, "mismatched": 0}
        sent = len(part) + sum(counts.values())
        start_s = place * elapsed_s / _INTERVALS
        found.append({"start_s": start_s, "sent": sent, "answered": len(part), "histogram": encoded(part), **counts})
    return found
