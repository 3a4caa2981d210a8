"""Decision specs as authors write them, in YAML or Python: `Spec` and its parts."""

from flyball.decision.spec.fields import Cache, Feature, Field, Reaction, Source, Window
from flyball.decision.spec.models import Explain, Idempotency, Model, Remedies, Route, Score, Variant
from flyball.decision.spec.policy import Band, Policy, Range, Reasons, Rule, Segment
from flyball.decision.spec.record import Record
from flyball.decision.spec.spec import SLO, Spec
from flyball.decision.spec.transforms import Transform

__all__ = [
    "SLO",
    "Band",
    "Cache",
    "Explain",
    "Feature",
    "Field",
    "Idempotency",
    "Model",
    "Policy",
    "Range",
    "Reaction",
    "Reasons",
    "Record",
    "Remedies",
    "Route",
    "Rule",
    "Score",
    "Segment",
    "Source",
    "Spec",
    "Transform",
    "Variant",
    "Window",
]
