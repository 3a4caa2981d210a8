"""The figures of a report as one JSON document. Unknown values, and those not the server's, are null."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from flyball.bench.report import texts
from flyball.bench.report.comparison import comparison_document
from flyball.bench.report.summary import summarise
from flyball.bench.statistics import QUANTILES, Comparison

if TYPE_CHECKING:
    from flyball.bench.record import BenchRecord
    from flyball.bench.report.summary import Breakdown, Point, Soak, SubjectFigures, Summary
    from flyball.bench.statistics import Estimate


def report_document(record: BenchRecord | Summary) -> dict[str, Any]:
    """The report's figures. Latencies are in µs, rates in requests per second."""
    summary = summarise(record)
    record = summary.record
    comparison = summary.comparison
    return {
        "name": texts.name_of(record),
        "setting": texts.setting(summary),
        "status": record.status,
        "partial_reason": record.partial_reason,
        "created_at": record.created_at.isoformat(),
        "slo_p99_ms": summary.slo_ms,
        "subjects": [_subject(subject) for subject in summary.subjects],
        "floor": record.floor.model_dump() if record.floor else None,
        "overhead": record.overhead.model_dump() if record.overhead else None,
        "curve": [_point(point) for point in summary.curve],
        "concurrency": [_point(point) for point in summary.concurrency],
        "breakdowns": [_breakdown(breakdown) for breakdown in summary.breakdowns],
        "soaks": [_soak(soak) for soak in summary.soaks],
        "comparison": comparison_document(comparison) if isinstance(comparison, Comparison) else comparison,
        "warnings": texts.warnings(summary),
        "notes": texts.notes(summary),
        "host": texts.host(record),
    }


def _subject(subject: SubjectFigures) -> dict[str, Any]:
    return {
        "name": subject.name,
        "version": subject.record.version,
        "rate_kept": subject.kept.model_dump(exclude={"subject"}) if subject.kept else None,
        "latency_us": {key: _estimate(subject.latency_us.get(key)) for key in [*QUANTILES, "max", "mean"]},
        "service_p99_us": subject.service_p99_us,
        "answered_per_s": _estimate(subject.rate_per_s),
        "error_share": subject.error_share,
        "cold_start_s": subject.record.cold_start_s,
        "memory_bytes": subject.record.memory_bytes,
        "windows": len(subject.windows),
        "windows_left_out": subject.left_out,
    }


def _estimate(estimate: Estimate | None) -> dict[str, float | None] | None:
    if estimate is None:
        return None
    interval = estimate.interval
    return {
        "value": estimate.value,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
    }


def _point(point: Point) -> dict[str, Any]:
    hidden = {} if point.bottleneck is None else {"answered_per_s": None, "p50_us": None, "p99_us": None}
    return asdict(point) | hidden


def _breakdown(breakdown: Breakdown) -> dict[str, Any]:
    return asdict(breakdown) | {"gap_us": breakdown.gap_us}


def _soak(soak: Soak) -> dict[str, Any]:
    return {
        "subject": soak.subject,
        "memory_bytes_first": soak.samples[0].memory_bytes,
        "memory_bytes_last": soak.samples[-1].memory_bytes,
        "slope_bytes_per_h": _estimate(soak.slope_per_h),
        "grows": soak.grows,
    }
