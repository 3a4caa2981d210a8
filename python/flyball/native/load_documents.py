"""What crosses to the load generator and back: plans, results, histograms, the echo's options.

Must not know the extension.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer


class _Answer(BaseModel):
    # Extra keys are taken silently: an extension built from a newer commit may tell more.
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class _Part(BaseModel):
    # A part of what this process tells the extension: a key that is not known is an error.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Arrivals(_Part):
    """How requests become due; a kind has its own keys, and the native reader refuses others.

    closed: each connection sends its next request when the last one is answered; constant: rate_per_s; poisson: rate_per_s,
    seed; burst: every `every_s` begins with `burst_s` at `burst_per_s`, the rest has rate_per_s; ramp: from_per_s, to_per_s,
    linear over the measured time; trace: offsets_s, ascending.
    """

    kind: Literal["closed", "constant", "poisson", "burst", "ramp", "trace"] = "closed"
    rate_per_s: float | None = None
    seed: int | None = None
    burst_per_s: float | None = None
    burst_s: float | None = None
    every_s: float | None = None
    from_per_s: float | None = None
    to_per_s: float | None = None
    offsets_s: list[float] | None = None

    @model_serializer(mode="wrap")
    def _keys_of_the_kind(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in write(self).items() if value is not None}


class Warmup(_Part):
    """Lasts `least_s`, then goes on until the load is steady, for `most_s` at the longest."""

    least_s: float = 1.0
    most_s: float = 1.0


class LoadPlan(_Part):
    """What to send, where, and how fast. `path` replaces /v2/models/<model>/infer, for peers, the echo and `json`.

    `json` sends bodies as they are; its payloads are lines of {"body": …, "holds": text that a right answer has in it}.
    """

    url: str
    model: str
    protocol: Literal["http", "http-binary", "grpc", "json"] = "http"
    connections: int = 16
    streams: int = 1
    threads: int = 1
    arrivals: Arrivals = Arrivals()
    duration_s: float = 5.0
    warmup: Warmup = Warmup()
    timeout_ms: int = 1000
    deadline_ms: int | None = None
    connection_wait_ms: int | None = None
    cpus: list[int] | None = None
    path: str | None = None
    interval_s: float | None = None


class LatencyFigures(_Answer):
    """Figures of a run, in µs."""

    p50: float
    p95: float
    p99: float
    p999: float
    max: float
    mean: float


class ErrorCount(_Answer):
    """How often a request failed for one reason."""

    reason: str
    count: int


class Generator(_Answer):
    """What the generator itself did; `lateness_us` is its own delay: from due to left, where a connection was free.

    `waited_share`: of the sent requests, those that found no free connection when they were due, and so waited in the
    generator's backlog.
    """

    threads: int
    busy_share: float
    starved_share: float
    lateness_us: LatencyFigures
    waited_share: float


class WarmedUp(_Answer):
    """How long the warm-up lasted, and whether rate and median latency had no trend when it ended."""

    used_s: float
    steady: bool


class TimelineInterval(_Answer):
    """The requests that were due in one interval of the measured time."""

    start_s: float
    sent: int
    answered: int
    refused: int
    failed: int
    mismatched: int
    histogram: str


class LoadResult(_Answer):
    """What a load run measured, warm-up left out: sent = answered + refused + failed + mismatched.

    `latency_us` counts from the intended send time, `service_us` from the moment at which the request left. Both have the
    right answers, and what timed out at the time that was gone; `latency_us` also what was never sent, at the time that it
    had waited and no less than the timeout, so that a server does not look better by making the generator give up.
    `bottleneck` names the generator where it, not the server, was the limit of the rate, or made part of the latency.
    """

    sent: int
    answered: int
    refused: int
    failed: int
    mismatched: int
    timed_out: int
    past_deadline: int
    first_problem: str | None
    errors: list[ErrorCount]
    offered_per_s: float
    elapsed_s: float
    rate_per_s: float
    latency_us: LatencyFigures
    service_us: LatencyFigures
    histogram: str
    service_histogram: str
    late_share: float
    bottleneck: str | None
    generator: Generator
    warmup: WarmedUp
    ended_early: str | None
    timeline: list[TimelineInterval]


class MergedHistogram(_Answer):
    """Several histograms as one: the middle of each bucket that has something in it, ascending, and how much."""

    count: int
    min_us: float
    max_us: float
    mean_us: float
    values_us: list[float]
    counts: list[int]


class EchoOptions(_Part):
    """A bare server: answers are padded to `reply_bytes`, each takes `service_us`, every `stall_every_s` all wait."""

    listen: str = "127.0.0.1:0"
    cpus: list[int] | None = None
    reply_bytes: int = 0
    service_us: int = 0
    stall_ms: int = 0
    stall_every_s: float = 0.0
