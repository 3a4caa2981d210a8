"""A whole decision, as its author writes it: in YAML, or as keyword arguments in Python. Both are this one object.

Must not know files or lines: `read` turns YAML into it, `flyball.decision.compile.document` compiles it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field as Words
from pydantic import model_validator

from flyball.decision.spec.fields import Feature, Field, Source
from flyball.decision.spec.models import Idempotency, Model, Remedies, Route, Variant
from flyball.decision.spec.parts import Key, Name, Part, Path, Text, words
from flyball.decision.spec.policy import Policy
from flyball.decision.spec.record import Record
from flyball.decision.spec.shorthand import Duration, Rate, WholeMs, not_allowed
from flyball.decision.spec.transforms import Transform
from flyball.documents.faults import Allowed


class SLO(Part):
    """What callers may expect: `slo: {p99: 5ms, timeout: 20ms, rate: 2000/s}`."""

    p99: Duration | None = words("99 of 100 answers come within it")
    timeout: WholeMs | None = words("the deadline of requests that bring none")
    rate: Rate | None = words("the rate at which that holds")


class Spec(Part):
    """A decision. Every path in it is relative to the folder of its file."""

    decision: Key = Words(description="its name: callers ask for /v1/decisions/NAME")
    owner: Text = Words(description="who answers for it")
    purpose: Text = Words(description="what it is for")
    slo: SLO = Words(default=SLO(), description="an object: what callers may expect")
    input: Annotated[dict[Name, Field], Words(min_length=1, max_length=1024)] = Words(
        description="an object: the fields that callers send"
    )
    features: Annotated[dict[Name, Feature], Words(max_length=1024)] = Words(
        default={}, description="an object: values that are looked up, counted or computed, in this order"
    )
    sources: Annotated[dict[Key, Source], Words(max_length=64)] = Words(
        default={}, description="an object: the stores that lookups name"
    )
    event_time: Name | None = words("the field that says when the event happened; without it, when the request came")
    transforms: Annotated[list[Transform], Words(max_length=1000)] = Words(
        default=[], description="a list of steps from values to columns"
    )
    fitted: Path | None = words("a file with fitted parameters of transforms")
    model: Model | None = words("an object: the model, where there is one; without any, the rules alone decide")
    models: Annotated[dict[Key, Model], Words(min_length=1, max_length=16)] | None = words(
        "an object: the models, where there are several"
    )
    variants: Annotated[dict[Key, Variant], Words(min_length=1, max_length=16)] | None = words(
        "an object: ways to a score, the first is the champion; by default each model by itself"
    )
    route: Route = Words(default=Route(), description="an object: which variant a request takes")
    policy: Policy = Words(description="an object: from a score to an outcome")
    remedies: Remedies = Words(default=Remedies(), description="an object: what is done instead of failing")
    idempotency: Idempotency = Words(default=Idempotency(), description="an object: how long retries are known")
    expose: Annotated[Literal["tensors"] | None, Allowed("tensors")] = words(
        "callers may also send tensors to its models by /v2; such calls are recorded, a server without a journal refuses it"
    )
    record: Record | None = words("an object: how its records are kept; with it, a server without a journal refuses it")

    @model_validator(mode="after")
    def _model_or_models(self) -> Spec:
        if self.model is not None and self.models is not None:
            raise not_allowed("`model:` for one model, `models:` for several, or neither where rules alone decide")
        if self.models is None and self.variants is not None:
            raise not_allowed("variants beside models; with one model or none there is nothing to choose from")
        return self
