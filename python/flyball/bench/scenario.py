"""A benchmark as its author writes it: model, requests, arrivals, and phases to measure.

Must not know servers, nor how a file is read: `flyball.bench.documents` turns YAML into these types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from flyball.documents.names import NAME_PATTERN

if TYPE_CHECKING:
    from collections.abc import Iterator

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
ServedName = Annotated[str, Field(pattern=NAME_PATTERN)]
Rate = Annotated[float, Field(gt=0, le=1_000_000)]
Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
MakerName = Literal["fraud-gbdt", "fraud-mlp-12mb", "vision-cnn-int8"]
Protocol = Literal["http", "http-binary", "grpc"]

_SHARES = [0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5]
_CONNECTIONS = [1, 2, 4, 8, 16, 32, 64]
_QUICK: dict[str, dict[str, object]] = {
    "steady": {"repeats": 3, "window_s": 1.0},
    "search": {"repeats": 1, "window_s": 0.5, "precision": 0.2},
    "curve": {"shares": [0.25, 0.5, 1.0, 1.25], "window_s": 0.5},
    "concurrency": {"connections": [1, 8, 32], "window_s": 0.5},
    "soak": {"duration_s": 5.0},
}
"""The changes to each phase for a quick result."""
BURST_PER_S_MAX = 10_000_000.0  # the generator's limit


class BrokenRuleError(ValueError):
    """A violated rule across keys; `locations` are the keys, relative to the part that raises."""

    def __init__(self, message: str, *locations: tuple[str, ...]) -> None:
        super().__init__(message)
        self.locations = locations


class Part(BaseModel):
    """A part of a hand-written document: unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelSource(Part):
    """A seeded maker of this package, or an ONNX file; `name` is its name on the server."""

    make: MakerName | None = None
    path: str | None = None
    name: ServedName = "model"
    seed: Seed = 7

    @model_validator(mode="after")
    def _one_source(self) -> ModelSource:
        if (self.make is None) == (self.path is None):
            raise ValueError("give one of make and path")
        return self


class PayloadSource(Part):
    """The source of rows: the model's signature, its maker, or a Parquet, CSV or JSONL file. Seeded."""

    source: Literal["maker", "signature", "file"] = "signature"
    file: str | None = None
    count: Annotated[int, Field(ge=1, le=100_000)] = 2000
    seed: Seed = 11
    check: bool = True

    @model_validator(mode="after")
    def _file_where_wanted(self) -> PayloadSource:
        if (self.source == "file") != (self.file is not None):
            raise ValueError("file is required with source: file, and allowed only then")
        return self


class Slo(Part):
    """The SLO of the search: p99, and the share of requests that may fail."""

    p99_ms: Annotated[float, Field(gt=0, le=60_000)]
    error_budget: Annotated[float, Field(ge=0, lt=1)] = 0.001


class Burst(Part):
    """Every `every_s` seconds, `burst_s` seconds at `times` the rate."""

    times: Annotated[float, Field(gt=1, le=1000)] = 4.0
    burst_s: Seconds = 0.2
    every_s: Seconds = 2.0

    @model_validator(mode="after")
    def _bursts_end(self) -> Burst:
        if self.burst_s >= self.every_s:
            raise BrokenRuleError(
                f"burst_s ({self.burst_s:g}) must be below every_s ({self.every_s:g}), or bursts never end",
                ("burst_s",),
                ("every_s",),
            )
        return self


class Arrivals(Part):
    """How requests become due in an open loop. A trace has its own rate; a ramp goes from a tenth of the rate to it."""

    kind: Literal["constant", "poisson", "burst", "ramp", "trace"] = "poisson"
    seed: Seed = 1
    burst: Burst | None = None
    trace_file: str | None = None

    @model_validator(mode="after")
    def _parts_of_the_kind(self) -> Arrivals:
        if (self.kind == "burst") != (self.burst is not None):
            raise ValueError("burst is required with kind: burst, and allowed only then")
        if (self.kind == "trace") != (self.trace_file is not None):
            raise ValueError("trace_file is required with kind: trace, and allowed only then")
        return self


class Steady(Part):
    """Repeated windows at one rate, for the published percentiles."""

    rate_per_s: Rate
    repeats: Annotated[int, Field(ge=1, le=100)] = 3
    window_s: Seconds = 10.0


class Search(Part):
    """The highest rate that meets the SLO: repeated bisections, each down to `precision`."""

    repeats: Annotated[int, Field(ge=1, le=20)] = 3
    window_s: Seconds = 2.0
    precision: Annotated[float, Field(gt=0.005, lt=0.5)] = 0.05


class Curve(Part):
    """Latency against rate, at these shares of the searched rate (or of `peak_per_s`)."""

    shares: Annotated[list[Annotated[float, Field(gt=0, le=10)]], Field(min_length=1, max_length=50)] = _SHARES
    window_s: Seconds = 2.0
    peak_per_s: Rate | None = None


class Concurrency(Part):
    """A closed loop at each of these numbers of connections."""

    connections: Annotated[list[Annotated[int, Field(ge=1, le=10_000)]], Field(min_length=1, max_length=50)] = _CONNECTIONS
    window_s: Seconds = 2.0


class Soak(Part):
    """One long window at one rate, with the server's memory recorded; the slope reveals leaks."""

    rate_per_s: Rate
    duration_s: Seconds = 600.0


class Scenario(Part):
    """A whole benchmark. Omitted phases of `steady` … `soak` are not measured."""

    scenario: Name
    about: str = ""
    model: ModelSource
    payloads: PayloadSource = PayloadSource()
    protocol: Protocol = "http"
    connections: Annotated[int, Field(ge=1, le=10_000)] = 32
    streams: Annotated[int, Field(ge=1, le=1000)] = 1
    arrivals: Arrivals = Arrivals()
    deadline_ms: Annotated[int, Field(ge=1, le=3_600_000)] | None = None
    timeout_ms: Annotated[int, Field(ge=1, le=3_600_000)] = 1000
    slo: Slo
    steady: Steady | None = None
    search: Search | None = None
    curve: Curve | None = None
    concurrency: Concurrency | None = None
    soak: Soak | None = None

    def quick(self) -> Scenario:
        """The same with short windows and few repeats, for a quick result."""
        phases = {name: getattr(self, name) for name in _QUICK}
        changes = {name: phase.model_copy(update=_QUICK[name]) for name, phase in phases.items() if phase}
        return self.model_copy(update=changes)

    @model_validator(mode="after")
    def _something_to_measure(self) -> Scenario:
        if all(getattr(self, name) is None for name in _QUICK):
            raise ValueError("nothing to measure: give at least one of steady, search, curve, concurrency, soak")
        if self.curve is not None and self.search is None and self.curve.peak_per_s is None:
            raise BrokenRuleError("curve needs a search before it, or peak_per_s", ("curve",))
        if self.arrivals.kind in ("ramp", "trace") and (self.search or self.curve):
            raise BrokenRuleError(
                f"arrivals of kind {self.arrivals.kind} have no single rate: search and curve need another kind",
                ("arrivals", "kind"),
                ("search",),
                ("curve",),
            )
        return self

    @model_validator(mode="after")
    def _load_that_can_be_sent(self) -> Scenario:
        _streams_fit(self.streams, self.protocol)
        if self.timeout_ms <= self.slo.p99_ms:
            raise BrokenRuleError(
                f"timeout_ms ({self.timeout_ms}) must be above slo.p99_ms ({self.slo.p99_ms:g}), "
                "or unanswered requests would count as within the SLO",
                ("timeout_ms",),
                ("slo", "p99_ms"),
            )
        times = self.arrivals.burst.times if self.arrivals.burst else 1.0
        for location, rate_per_s in self._rates():
            if rate_per_s * times > BURST_PER_S_MAX:
                raise BrokenRuleError(
                    f"{'.'.join(location)} × arrivals.burst.times is {rate_per_s * times:,.0f}/s; "
                    f"allowed: to {BURST_PER_S_MAX:,.0f}/s",
                    ("arrivals", "burst", "times"),
                    location,
                )
        return self

    def _rates(self) -> Iterator[tuple[tuple[str, str], float]]:
        """The highest rate of each part that names one."""
        if self.steady:
            yield ("steady", "rate_per_s"), self.steady.rate_per_s
        if self.curve and self.curve.peak_per_s:
            yield ("curve", "peak_per_s"), self.curve.peak_per_s * max(self.curve.shares)
        if self.soak:
            yield ("soak", "rate_per_s"), self.soak.rate_per_s


class Contract(Part):
    """`slo.yaml` of `flyball bench gate`: what a server must prove for a model or decision."""

    contract: Name
    url: str | None = None
    model: ServedName
    protocol: Literal["http", "http-binary", "grpc", "decision"] = "http"
    connections: Annotated[int, Field(ge=1, le=10_000)] = 32
    streams: Annotated[int, Field(ge=1, le=1000)] = 1
    rate_per_s: Rate
    p99_ms: Annotated[float, Field(gt=0, le=60_000)]
    error_budget: Annotated[float, Field(ge=0, lt=1)] = 0.001
    window_s: Seconds = 10.0
    repeats: Annotated[int, Field(ge=1, le=100)] = 3
    arrivals: Literal["constant", "poisson"] = "poisson"
    payloads: PayloadSource = PayloadSource(check=False)

    @model_validator(mode="after")
    def _load_that_can_be_sent(self) -> Contract:
        _streams_fit(self.streams, self.protocol)
        if self.protocol == "decision" and self.payloads.source != "file":
            raise BrokenRuleError(
                "protocol: decision requires payloads of source: file, because a decision's rows cannot be generated",
                ("payloads", "source"),
                ("protocol",),
            )
        return self


def _streams_fit(streams: int, protocol: str) -> None:
    if streams > 1 and protocol != "grpc":
        raise BrokenRuleError("streams above 1 need protocol: grpc", ("streams",), ("protocol",))
