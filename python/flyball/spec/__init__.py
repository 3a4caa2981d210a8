"""Decisions as their authors write them, in YAML or in Python: `Decision`, its parts, and how they compile."""

from flyball.spec.columns import kinds, open_steps
from flyball.spec.decision import Decision
from flyball.spec.faults import DecisionRefusedError
from flyball.spec.fields import Cache, Feature, Field, Reaction, Source, Window
from flyball.spec.models import Explain, Idempotency, Model, Remedies, Route, Score, Variant
from flyball.spec.policy import Band, Policy, Range, Reasons, Rule, Segment
from flyball.spec.record import Record
from flyball.spec.root import SLO, Spec
from flyball.spec.transforms import Transform

__all__ = [
    "SLO",
    "Band",
    "Cache",
    "Decision",
    "DecisionRefusedError",
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
    "kinds",
    "open_steps",
]
