"""`Spec`: a whole decision, from YAML or from keyword arguments in Python.

Must not know files or lines: `read` parses YAML, `flyball.decision.compile.document` compiles it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field as Attr
from pydantic import model_validator

from flyball.decision.display import spec_html, spec_text
from flyball.decision.spec.fields import Feature, Field, Source
from flyball.decision.spec.models import Idempotency, Model, Remedies, Route, Variant
from flyball.decision.spec.parts import Key, Name, Part, Path, Text, optional
from flyball.decision.spec.policy import Policy
from flyball.decision.spec.shorthand import Duration, Rate, WholeMs, not_allowed
from flyball.decision.spec.transforms import Transform
from flyball.documents.faults import Allowed


class SLO(Part):
    """What callers may expect: `slo: {p99: 5ms, timeout: 20ms, rate: 2000/s}`."""

    p99: Duration | None = optional("99th percentile of the latency")
    timeout: WholeMs | None = optional("the deadline of requests without one")
    rate: Rate | None = optional("the rate at which that holds")


class Record(Part):
    """How records of its decisions are stored. A server without a journal refuses a decision with this section."""

    durability: Annotated[Literal["buffered", "sync"], Allowed("buffered or sync")] = Attr(
        default="buffered", description="buffered: on disk shortly after the answer; sync: before it"
    )
    when_unavailable: Annotated[Literal["fail_closed", "serve_unlogged"], Allowed("fail_closed or serve_unlogged")] = Attr(
        default="fail_closed",
        description="while no record can be written: the remedy for record_error, before any compute; or decide, and count",
    )
    sample: Annotated[float, Attr(ge=0, le=1, allow_inf_nan=False), Allowed("a share of decisions, 0 to 1")] = Attr(
        default=1.0, description="share of records with input, features and outputs"
    )
    mask: Annotated[list[Name], Attr(max_length=1024), Allowed("a list of fields")] = Attr(
        default=[], description="fields whose values are in no record; the record says which"
    )


class Spec(Part):
    """A decision. Every path in it is relative to the folder of its file."""

    decision: Key = Attr(description="its name: callers use /v1/decisions/NAME")
    owner: Text = Attr(description="who is responsible for it")
    purpose: Text = Attr(description="what it is for")
    slo: SLO = Attr(default=SLO(), description="an object: what callers may expect")
    input: Annotated[dict[Name, Field], Attr(min_length=1, max_length=1024)] = Attr(
        description="an object: the fields that callers send"
    )
    features: Annotated[dict[Name, Feature], Attr(max_length=1024)] = Attr(
        default={}, description="an object: looked-up, counted or computed values, in this order"
    )
    sources: Annotated[dict[Key, Source], Attr(max_length=64)] = Attr(
        default={}, description="an object: the stores that lookups name"
    )
    event_time: Name | None = optional("the field with the time of the event; by default the arrival of the request")
    transforms: Annotated[list[Transform], Attr(max_length=1000)] = Attr(
        default=[], description="a list of steps from values to columns"
    )
    fitted: Path | None = optional("a file with fitted parameters of transforms")
    model: Model | None = optional("an object: the model, if there is one; without any, the rules alone decide")
    models: Annotated[dict[Key, Model], Attr(min_length=1, max_length=16)] | None = optional(
        "an object: the models, if there are several"
    )
    variants: Annotated[dict[Key, Variant], Attr(min_length=1, max_length=16)] | None = optional(
        "an object: variants, the first is the champion; by default one per model"
    )
    route: Route = Attr(default=Route(), description="an object: which variant a request gets")
    policy: Policy = Attr(description="an object: from a score to an outcome")
    remedies: Remedies = Attr(default=Remedies(), description="an object: the remedy for each kind of fault")
    idempotency: Idempotency = Attr(default=Idempotency(), description="an object: how long retries are recognised")
    expose: Annotated[Literal["tensors"] | None, Allowed("tensors")] = optional(
        "callers may also send tensors to its models by /v2; such calls are recorded, a server without a journal refuses it"
    )
    record: Record | None = optional("an object: how its records are stored; with it, a server without a journal refuses it")

    def __repr__(self) -> str:
        return f"<Spec {spec_text(self)}>"

    def _repr_html_(self) -> str:
        return spec_html(self)

    @model_validator(mode="after")
    def _model_or_models(self) -> Spec:
        if self.model is not None and self.models is not None:
            raise not_allowed("`model:` for one model, `models:` for several, or neither if only rules decide")
        if self.models is None and self.variants is not None:
            raise not_allowed("variants only with models")
        return self
