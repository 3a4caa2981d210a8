"""Windows from given latencies, with histograms written by another HdrHistogram implementation."""

from datetime import UTC, datetime

import numpy as np
from hdrh.histogram import HdrHistogram

from flyball.bench.record import HostSeen, MemorySample, Window
from flyball.native.load_documents import LoadPlan, LoadResult

_NS_MAX = 3_600_000_000_000
_STARTED = datetime(2026, 1, 1, tzinfo=UTC)
_ARRIVALS = {
    "closed": {"kind": "closed"},
    "constant": {"kind": "constant", "rate_per_s": 1000.0},
    "ramp": {"kind": "ramp", "from_per_s": 100.0, "to_per_s": 1000.0},
}


def encoded(latencies_us):
    """Nanoseconds with three digits, V2, compressed, base64."""
    histogram = HdrHistogram(1, _NS_MAX, 3)
    for value, count in zip(*np.unique(np.round(np.asarray(latencies_us) * 1000), return_counts=True), strict=True):
        histogram.record_value(int(value), int(count))
    return histogram.encode().decode()


def window(blocks, *, subject="flyball", arrivals="closed", elapsed_s=2.0, steal_share=0.0, raw=True, memory=(), **changes):
    """A window with an interval for each of `blocks`, which are latencies in µs; `failed` is a number, or one for each.

    `changes` are the result's. Without `raw` there is no histogram and no time line: enough for comparisons, and fast.
    """
    latencies_us = np.concatenate([np.asarray(block, float) for block in blocks])
    missed = changes.pop("failed", 0)
    failures = np.diff(np.round(np.linspace(0, missed, len(blocks) + 1))) if isinstance(missed, int) else missed
    failed = int(sum(failures))
    histogram = encoded(latencies_us) if raw else ""
    result = {
        "sent": len(latencies_us) + failed,
        "answered": len(latencies_us),
        "refused": 0,
        "failed": failed,
        "mismatched": 0,
        "timed_out": 0,
        "past_deadline": 0,
        "first_problem": "connection reset" if failed else None,
        "errors": [],
        "offered_per_s": (len(latencies_us) + failed) / elapsed_s,
        "elapsed_s": elapsed_s,
        "rate_per_s": len(latencies_us) / elapsed_s,
        "latency_us": _figures(latencies_us),
        "service_us": _figures(latencies_us),
        "histogram": histogram,
        "service_histogram": histogram,
        "late_share": 0.0,
        "bottleneck": None,
        "generator": {
            "threads": 1,
            "busy_share": 0.3,
            "starved_share": 0.0,
            "waited_share": 0.0,
            "lateness_us": _figures(np.array([5.0])),
        },
        "warmup": {"used_s": 1.0, "steady": True},
        "ended_early": None,
        "timeline": _timeline(blocks, elapsed_s, failures) if raw else [],
    }
    return Window(
        subject=subject,
        phase="steady",
        started_at=_STARTED,
        plan=LoadPlan.model_validate({"url": "http://127.0.0.1:1", "model": "m", "arrivals": _ARRIVALS[arrivals]}),
        result=LoadResult.model_validate(result | changes),
        host=HostSeen(steal_share=steal_share, load_1m=0.5),
        memory=[MemorySample(at_s=at_s, memory_bytes=memory_bytes) for at_s, memory_bytes in memory],
    )


def _timeline(blocks, elapsed_s, failures):
    length_s = elapsed_s / len(blocks)
    return [
        {
            "start_s": place * length_s,
            "sent": len(block) + int(missed),
            "answered": len(block),
            "refused": 0,
            "failed": int(missed),
            "mismatched": 0,
            "histogram": encoded(block),
        }
        for place, (block, missed) in enumerate(zip(blocks, failures, strict=True))
    ]


def _figures(latencies_us):
    if not len(latencies_us):
        return dict.fromkeys(("p50", "p95", "p99", "p999", "max", "mean"), 0.0)
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999, "max": 1.0}
    quantiles = np.quantile(latencies_us, list(shares.values()), method="inverted_cdf")
    return {**dict(zip(shares, map(float, quantiles), strict=True)), "mean": float(latencies_us.mean())}
