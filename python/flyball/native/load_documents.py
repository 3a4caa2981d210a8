"""Documents of the load generator: plans, results, histograms, the echo server's options.

Must not know the extension.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer

from flyball.native.answer import Answer


class _Part(BaseModel):
    # Sent to the extension: an unknown key is an error.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Arrivals(_Part):
    """When requests are due; each kind has its own keys, and the extension refuses others.

    closed: each connection sends its next request after the last answer; constant: rate_per_s; poisson: rate_per_s, seed;
    burst: every `every_s` starts with `burst_s` at `burst_per_s`, the rest has rate_per_s; ramp: from_per_s, to_per_s,
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
    """At least `least_s`, then until the load is steady, but at most `most_s`."""

    least_s: float = 1.0
    most_s: float = 1.0


class LoadPlan(_Part):
    """What to send, where, and how fast. `path` replaces /v2/models/<model>/infer, for peers, the echo server and `json`.

    `json` sends bodies unchanged; its payloads are lines of {"body": …, "holds": a text that a correct answer contains}.
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


class LatencyFigures(Answer):
    """Latency figures, in µs."""

    p50: float
    p95: float
    p99: float
    p999: float
    max: float
    mean: float


class ErrorCount(Answer):
    """The number of requests that failed for one reason."""

    reason: str
    count: int


class Generator(Answer):
    """The generator's own load; `lateness_us` is its delay from due to sent, if a connection was free.

    `waited_share`: the share of sent requests that found no free connection when they were due, and waited in the
    generator's backlog.
    """

    threads: int
    busy_share: float
    starved_share: float
    lateness_us: LatencyFigures
    waited_share: float


class WarmedUp(Answer):
    """Length of the warm-up, and whether rate and median latency were steady at its end."""

    used_s: float
    steady: bool


class TimelineInterval(Answer):
    """Requests that were due in one interval of the measured time."""

    start_s: float
    sent: int
    answered: int
    refused: int
    failed: int
    mismatched: int
    histogram: str


class LoadResult(Answer):
    """Measurements of a load run without its warm-up: sent = answered + refused + failed + mismatched.

    `latency_us` counts from the intended send time, `service_us` from the actual one. Both include correct answers, and
    timed-out requests with their elapsed time. `latency_us` also includes requests that were never sent, with their waiting
    time but at least the timeout, so that a server does not look better because the generator gave up. `bottleneck` names
    the generator if it, not the server, limited the rate or added latency.
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


class MergedHistogram(Answer):
    """Several histograms as one: the middles of non-empty buckets, ascending, and their counts."""

    count: int
    min_us: float
    max_us: float
    mean_us: float
    values_us: list[float]
    counts: list[int]


class EchoOptions(_Part):
    """A bare server: answers have `reply_bytes`, each takes `service_us`, and all stall every `stall_every_s`."""

    listen: str = "127.0.0.1:0"
    cpus: list[int] | None = None
    reply_bytes: int = 0
    service_us: int = 0
    stall_ms: int = 0
    stall_every_s: float = 0.0
