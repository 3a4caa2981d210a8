"""Compiles a decision to the `decision` part of a deployment's document: expands shorthands, reads files.

`crates/decision/src/document.rs` has its types and checks its semantics. Must not know servers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flyball.decision.compile.columns import feature_type, touched, whole_steps
from flyball.decision.compile.files import Files
from flyball.decision.compile.model_documents import PREVIOUS, Artifact, ModelDocuments, only_name, previous_name
from flyball.decision.compile.policy_document import policy_document
from flyball.decision.spec.faults import Origin, near, refusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from flyball.decision.spec.fields import Feature, Field, Reaction, Source
    from flyball.decision.spec.models import Remedied
    from flyball.decision.spec.spec import Spec

_REDIS_ENV = "FLYBALL_REDIS_URL"
_REDIS_TIMEOUT_MS = 5
_CHAMPION = "champion"


@dataclass(frozen=True, slots=True)
class Compiled:
    """A decision's document and its models."""

    name: str
    document: dict[str, Any]
    artifacts: list[Artifact]
    timeout_ms: int | None
    singular: str | None = None
    """The name of the only model, if the author wrote `model`."""


def compile_spec(spec: Spec, base: Path, origin: Origin) -> Compiled:
    """Compile the document; raises with every unreadable file and every missing parameter."""
    files = Files(base, origin)
    values = {name: values_of(spec, name, files) for name in [*spec.input, *spec.features]}
    known = {name: known_to(spec, name, found) for name, found in values.items() if found or part_of(spec, name).values_file}
    steps = whole_steps(spec, known, files)
    columns = touched(steps, [*spec.input, *spec.features])
    singular = only_name(spec.model) if spec.model else None
    models = ModelDocuments(files, columns)
    if spec.model is not None and singular is not None:
        models.add(("model",), singular, spec.model)
    for name, model in (spec.models or {}).items():
        models.add(("models", name), name, model)
    document = {
        "owner": spec.owner,
        "purpose": spec.purpose,
        "input": [field_document(name, part, values[name]) for name, part in spec.input.items()],
        "features": [_feature(name, part, values[name]) for name, part in spec.features.items()],
        "sources": _sources(spec, files),
        "event_time": spec.event_time,
        "transforms": steps,
        "models": models.documents,
        **_routing(spec, singular),
        "policy": policy_document(spec.policy, files, ("policy",)),
        "remedies": {name: _remedy(part) for name, part in spec.remedies},
        "idempotency": spec.idempotency.model_dump(),
        **({"record": spec.record.model_dump()} if spec.record is not None else {}),
        **({"expose": spec.expose} if spec.expose is not None else {}),
    }
    _check_remedies(spec, document["policy"]["outcomes"], files)
    if files.faults:
        raise refusal(origin, files.faults)
    timeout_ms = spec.slo.timeout.ms if spec.slo.timeout else None
    return Compiled(spec.decision, document, models.artifacts, timeout_ms, singular)


def values_of(spec: Spec, name: str, files: Files) -> list[str]:
    """The values of a category, from the spec or its file; empty for other types."""
    part = part_of(spec, name)
    if part.values_file is not None:
        return files.values(("input" if name in spec.input else "features", name, "values_file"), part.values_file)
    return list(part.values or ())


def known_to(spec: Spec, name: str, values: list[str]) -> list[str]:
    """The values of a category, with the replacement of unknown ones."""
    unknown = part_of(spec, name).unknown
    return values if unknown is None or unknown in values else [*values, unknown]


def bare_document(owner: str, purpose: str, **parts: Any) -> dict[str, Any]:
    """The document of a decision with only these parts, which accepts every row."""
    policy = {"outcomes": ["accepted"], "rules": [{"when": "true", "then": "accepted"}]}
    return {"owner": owner, "purpose": purpose, **parts, "policy": policy}


def part_of(spec: Spec, name: str) -> Field | Feature:
    """The field or feature of a name."""
    return spec.input[name] if name in spec.input else spec.features[name]


def field_document(name: str, part: Field, values: list[str]) -> dict[str, Any]:
    """A field of the input; `values` are a category's, from the spec or a file."""
    given = part.model_dump(exclude_none=True, exclude={"values", "values_file"})
    return {"name": name, **given, **({"values": values} if values else {})}


def _feature(name: str, part: Feature, values: list[str]) -> dict[str, Any]:
    document: dict[str, Any] = {"name": name, "type": feature_type(part), "unknown": part.unknown, "compute": part.compute}
    if values:
        document["values"] = values
    if part.window is not None:
        document["window"] = {**part.window.model_dump(exclude={"last"}), "last_ms": part.window.last.ms}
    if part.lookup is not None:
        document["lookup"] = {"source": part.lookup, "key": part.key, "field": part.field or name}
    if part.max_age is not None:
        document["max_age_ms"] = part.max_age.ms
    for key in ("on_missing", "on_stale", "on_error"):
        document[key] = _reaction(getattr(part, key))
    return {key: value for key, value in document.items() if value is not None}


def _reaction(reaction: Reaction) -> Any:
    return {"value": reaction.value} if reaction.do == "value" else reaction.do


def _sources(spec: Spec, files: Files) -> dict[str, Any]:
    """The given sources, and a Redis source for each other name in a lookup."""
    sources = {name: _source(name, part, files) for name, part in spec.sources.items()}
    for name, feature in spec.features.items():
        wanted = feature.lookup
        if wanted is None or wanted in sources:
            continue
        if spec.sources:
            files.wrong(("features", name, "lookup"), wanted, f"one of the sources; {near(wanted, list(spec.sources))}")
        sources[wanted] = {"kind": "redis", "url_env": _REDIS_ENV, "set": wanted, "timeout_ms": _REDIS_TIMEOUT_MS}
    return sources


def _source(name: str, part: Source, files: Files) -> dict[str, Any]:
    cache = {
        "ttl_ms": part.cache.ttl.ms,
        "absent_ttl_ms": part.cache.absent_ttl.ms,
        "entries_max": part.cache.entries_max,
    }
    common = {"set": part.set or name, "cache": cache}
    if part.store is not None:
        return {"kind": "store", "path": str(files.at(part.store)), **common}
    where = {"url": part.redis} if part.redis is not None else {"url_env": part.redis_env}
    return {"kind": "redis", **where, "timeout_ms": part.timeout.ms, **common}


def _routing(spec: Spec, singular: str | None) -> dict[str, Any]:
    """Variants and route; without `variants`, one variant per model."""
    route = spec.route.model_dump()
    if route["sticky"] is None:
        route["sticky"] = next((name for name, part in spec.input.items() if part.key), None)
    if singular is not None:
        variants = [_variant(_CHAMPION, [singular], None)]
        if spec.model is not None and spec.model.previous is not None:
            variants.append(_variant(PREVIOUS, [previous_name(singular)], None))
            route["fallback"] = route["fallback"] or PREVIOUS
    elif spec.variants is None:  # none where there is no model
        variants = [_variant(name, [name], None) for name in spec.models or ()]
    else:
        variants = [_variant(name, part.models, part.weights) for name, part in spec.variants.items()]
    return {"variants": variants, "route": route}


def _variant(name: str, models: Sequence[str], weights: Mapping[str, float] | None) -> dict[str, Any]:
    return {"name": name, "models": list(models), "weights": dict(weights) if weights is not None else {models[-1]: 1.0}}


def _check_remedies(spec: Spec, outcomes: Sequence[str], files: Files) -> None:
    """Refuse a word that is both a remedy and an outcome: the author may mean either."""
    for name in spec.remedies.model_fields_set:
        word = getattr(spec.remedies, name).do
        if word != "outcome" and word in outcomes:
            allowed = f"{{outcome: {word}}} for the outcome; for the remedy {word}, give the outcome another name"
            files.wrong(("remedies", name), word, allowed)


def _remedy(remedied: Remedied) -> Any:
    if remedied.do == "outcome":
        return {"outcome": remedied.outcome}
    return "previous" if remedied.do == "previous_version" else remedied.do
