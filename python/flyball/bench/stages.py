"""The server's own histograms of walks and stages, between two scrapes of /metrics.

Must not know what was measured. Other servers have no such metrics, which is not an error.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import urlsplit

import urllib3
from urllib3.exceptions import HTTPError

from flyball.bench.record import ServerSide, StageTime
from flyball.client.unix_socket import pool_to
from flyball.errors import FlyballError, plain_cause

_TIMEOUT_S = 5.0
_PAGE_BYTES_MAX = 64 << 20
_LABEL = re.compile(r'(\w+)="([^"]*)"')

Scrape: TypeAlias = str
"""The text of /metrics; empty if the server has none."""


def metrics(url: str) -> Scrape:
    """The text of /metrics, from a flyball server."""
    parts = urlsplit(url)  # http://host:port, grpc://host:port (the same port speaks both) or unix:/path
    with urllib3.PoolManager(retries=False, timeout=_TIMEOUT_S) as pool:
        if parts.scheme == "unix":
            pool.pool_classes_by_scheme = {"http": pool_to(parts.path)}
        try:
            answer = pool.request(
                "GET", f"http://{parts.netloc or 'localhost'}/metrics", redirect=False, preload_content=False
            )
            text = answer.read(_PAGE_BYTES_MAX).decode(errors="replace")
        except HTTPError as error:
            raise FlyballError(f"cannot read {url}/metrics: {plain_cause(error)}") from error
    if answer.status != 200:
        raise FlyballError(f"{url}/metrics answered {answer.status}")
    return text


def scrape(url: str) -> Scrape:
    """The text of /metrics from any server; empty if there is none."""
    try:
        return metrics(url)
    except FlyballError:
        return ""


def server_side(before: Scrape, after: Scrape, model: str) -> ServerSide | None:
    """The server's figures for a model between two scrapes; None if there are none."""
    whole = _grown(before, after, "flyball_request_seconds", model).get("")
    if whole is None or whole.count <= 0:
        return None
    stages = _grown(before, after, "flyball_stage_seconds", model)
    return ServerSide(
        whole=whole.time("whole"),
        stages=[grown.time(stage) for stage, grown in stages.items()],
        mean_batch_rows=mean_batch_rows(before, after, model),
    )


def mean_batch_rows(before: Scrape, after: Scrape, model: str) -> float | None:
    """Mean rows per run between two scrapes; None if nothing ran."""
    rows = _grown(before, after, "flyball_batch_rows", model).get("")
    return rows.mean if rows is not None and rows.count > 0 else None


@dataclass(slots=True)
class _Histogram:
    """A Prometheus histogram: cumulative counts by bucket edge."""

    below: dict[float, float] = field(default_factory=dict)
    sum: float = 0.0
    count: float = 0.0

    def at(self, edge: float) -> float:
        """The count at an edge. A series of zeros has only the edge +Inf: all of it is below the others."""
        return self.below.get(edge, self.count)

    def grow(self, before: _Histogram, after: _Histogram) -> None:
        """Add the growth of one series."""
        for edge in after.below:
            self.below[edge] = self.below.get(edge, 0.0) + after.at(edge) - before.at(edge)
        self.sum += after.sum - before.sum
        self.count += after.count - before.count

    @property
    def mean(self) -> float:
        return self.sum / self.count if self.count > 0 else 0.0

    def quantile(self, share: float) -> float:
        """Linear interpolation inside the bucket, as in Prometheus. Beyond the last edge only that edge is known."""
        if self.count <= 0:
            return 0.0
        rank, low, low_count = share * self.count, 0.0, 0.0
        for edge, count in sorted(self.below.items()):
            if count < rank:
                low, low_count = edge, count
            elif low == 0.0:  # the first bucket starts at 0, where interpolation says little
                return min(edge * rank / count, self.mean)
            elif math.isfinite(edge):
                return low + (edge - low) * (rank - low_count) / (count - low_count)
        return low

    def time(self, stage: str) -> StageTime:
        """In µs."""
        return StageTime(
            stage=stage,
            count=int(self.count),
            mean_us=self.mean * 1e6,
            p50_us=self.quantile(0.50) * 1e6,
            p99_us=self.quantile(0.99) * 1e6,
        )


def _grown(before: Scrape, after: Scrape, family: str, model: str) -> dict[str, _Histogram]:
    """A family's growth for a model over all versions, by stage in the server's order ("" without stages)."""
    grown: dict[str, _Histogram] = {}
    then = _series(before, family, model)
    for (version, stage), now in _series(after, family, model).items():
        grown.setdefault(stage, _Histogram()).grow(then.get((version, stage), _Histogram()), now)
    return grown


def _series(text: Scrape, family: str, model: str) -> dict[tuple[str, str], _Histogram]:
    """One family's histograms for one model, by version and stage.

    Flyball's label values need no escaping, so that one regular expression reads them: 1,300 lines take 5 ms. A general
    parser takes 30 ms and would be one more dependency of `flyball demo`.
    """
    line = re.compile(
        rf'^{family}_(bucket|sum|count)\{{([^}}]*\bmodel="{re.escape(model)}"[^}}]*)\}} (\d\S*)$', re.MULTILINE
    )
    found: dict[tuple[str, str], _Histogram] = {}
    for kind, text_of_labels, value in line.findall(text):
        labels = dict(_LABEL.findall(text_of_labels))
        series = found.setdefault((labels.get("version", ""), labels.get("stage", "")), _Histogram())
        if kind == "bucket":
            series.below[float(labels["le"])] = float(value)
        else:
            setattr(series, kind, float(value))
    return found
