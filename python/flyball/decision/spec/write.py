"""Writes a decision as YAML, without defaults and with shorthands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from flyball.decision.spec.models import FROM_TRANSFORMS
from flyball.decision.spec.parts import Part
from flyball.decision.spec.shorthand import Duration, Rate
from flyball.documents.yaml_lines import Dumper

if TYPE_CHECKING:
    from flyball.decision.spec.spec import Spec


def yaml_of(spec: Spec) -> str:
    """YAML that reads back as the same decision."""
    parts = _plain(spec)
    for section in ("input", "features", "sources", "models", "variants"):
        if section in parts:
            parts[section] = {name: _Flow(part) if isinstance(part, dict) else part for name, part in parts[section].items()}
    if "slo" in parts:
        parts["slo"] = _Flow(parts["slo"])
    return yaml.dump(parts, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=10_000)


class _Flow(dict[str, Any]):
    """An object on one line."""


class _Writer(Dumper):
    """A dumper for objects on one line."""


def _flow(dumper: yaml.SafeDumper, value: _Flow) -> yaml.Node:
    return dumper.represent_mapping("tag:yaml.org,2002:map", dict(value), flow_style=True)


_Writer.add_representer(_Flow, _flow)


def _plain(part: Part) -> dict[str, Any]:
    """A part's keys in the author's form."""
    fields = type(part).model_fields
    written = {}
    for name, field in fields.items():
        value = getattr(part, name)
        if field.is_required() or value != field.get_default(call_default_factory=True):
            written[field.alias or name] = written_value(value)
    return written


def written_value(value: Any) -> Any:
    """A value in the author's form."""
    match type(value).__name__:
        case "Reaction":
            return {"value": value.value} if value.do == "value" else value.do
        case "Remedied":
            return {"outcome": value.outcome} if value.do == "outcome" else value.do
        case "Score":
            return f"{value.output}[{value.element}]" if value.element else value.output
        case "Transform":
            return {value.op: _step(_plain(value.step))}
    if isinstance(value, Duration | Rate):
        return str(value)
    if isinstance(value, list) and value and type(value[0]).__name__ == "Tensor":
        return _columns(value)
    if isinstance(value, list):
        return [written_value(item) for item in value]
    if isinstance(value, dict):
        return {key: written_value(item) for key, item in value.items()}
    return _plain(value) if isinstance(value, Part) else value


def _step(parts: dict[str, Any]) -> Any:
    of = parts["of"]
    short = of[0] if len(of) == 1 else of
    return short if len(parts) == 1 else {**parts, "of": short}


def _columns(tensors: list[Any]) -> Any:
    if len(tensors) == 1 and tensors[0].tensor is None:
        return FROM_TRANSFORMS if tensors[0].columns is None else tensors[0].columns
    return {part.tensor: part.columns for part in tensors}
