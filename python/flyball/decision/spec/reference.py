"""Renders docs/reference/decision-spec.md from the models, so that the page cannot fall behind.

Run:  python -m flyball.decision.spec.reference > docs/reference/decision-spec.md
"""

from __future__ import annotations

import sys
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from flyball.decision.spec import fields, models, policy, spec, transforms
from flyball.decision.spec.shorthand import Duration, Rate
from flyball.decision.spec.write import written_value
from flyball.documents.faults import Allowed

_HEAD = """\
# Decisions

This page lists every key of a decision. A decision is one YAML file (JSON is YAML): `flyball check FILE` reports every
fault with its line, `flyball plan FILE` shows the compiled stages, `flyball serve --decision FILE` serves it at
`POST /v1/decisions/NAME`. In Python it is `flyball.Decision.load("card-fraud.yaml")`, or
`flyball.Decision(decision="card-fraud", …)` with the same keys and the same shorthands; both give the same object. Unknown
keys are errors, and all faults are reported at once. Paths are relative to the file.

<!-- rendered by `python -m flyball.decision.spec.reference`; a test compares this page with the models -->

```yaml
decision: card-fraud
owner: payments-risk@example.com
purpose: score card payments before authorisation
slo: {p99: 5ms, timeout: 20ms, rate: 2000/s}

input:
  card_id:  {type: string, key: true, pii: true}
  amount:   {type: float, min: 0, max: 100000}
  currency: {type: category, values: [EUR, USD, GBP]}
  country:  {type: category, values_file: countries.txt, unknown: other}
  mcc:      {type: int, missing: -1}                    # not required; -1 replaces it

features:
  spent_1h:    {window: sum(amount) by card_id last 1h}
  payments_1h: {window: count() by card_id last 1h excluding current}
  home:        {lookup: cards, key: card_id, field: home_country, max_age: 10m, on_missing: other, on_error: use_stale}

sources:
  cards: {redis_env: REDIS_URL, timeout: 2ms}

transforms:
  - log1p: amount
  - standardize: [amount, spent_1h]                     # its parameters come from the fitted file
  - one_hot: [currency, country]                        # the categories of the fields, unless fitted
fitted: card-fraud.fitted.json

model:
  path: fraud.onnx
  columns: from transforms
  score: probabilities[1]
  explain: {trees: fraud.trees.json}

policy:
  guard: {score: 0..1}
  rules:
    - {when: amount > 5000.0 && country != home, then: review, reason: R07}
    - {when: payments_1h > 20, then: reject, reason: R11}
  bands: {pass: "< 0.30", review: "< 0.80", reject: ">= 0.80"}
  reasons: {from: contributions, most: 4, texts: reasons.csv}

remedies:
  model_unavailable: rules
  timeout:           rules                              # the rules above, without the model
  feature_error:     review
  queue_full:        shed
```

Rules see fields and features as they are, never transformed columns. A missing value is not false: `when` is evaluated
in three-valued logic, and `missing` is the value of an unknown condition.

A decision needs no model: leave out `model` and `models`, write `policy.outcomes` instead of `policy.bands`, and the
rules alone decide. A row that no rule decides gets the second most severe outcome.
"""

_SECTIONS: list[tuple[str, type[BaseModel]]] = [
    ("A decision", spec.Spec),
    ("slo", spec.SLO),
    ("input: a field", fields.Field),
    ("features: a feature", fields.Feature),
    ("features: a window", fields.Window),
    ("sources: a source", fields.Source),
    ("sources: cache", fields.Cache),
    ("transforms: a step", transforms.Transform),
    ("model, models: a model", models.Model),
    ("model: previous", models.Previous),
    ("model: explain", models.Explain),
    ("model: explain: trees", models.Trees),
    ("model: explain: linear", models.Linear),
    ("model: explain: ablation", models.Ablation),
    ("variants: a variant", models.Variant),
    ("route", models.Route),
    ("policy", policy.Policy),
    ("policy: guard: a range", policy.Range),
    ("policy: a rule", policy.Rule),
    ("policy: a band", policy.Band),
    ("policy: a segment", policy.Segment),
    ("policy: kill_switch", policy.KillSwitch),
    ("policy: reasons", policy.Reasons),
    ("remedies", models.Remedies),
    ("idempotency", models.Idempotency),
    ("record", spec.Record),
]
_NOTES = {
    "remedies": """\
A remedy is a word, or an outcome of the policy. `error` answers with an error, `shed` with an overload error, `retry` tries
once more, `rules` decides by the rules alone, `previous_version` runs the fallback variant; any other word is an outcome:
`timeout: review`. A word that is both a remedy and an outcome is refused; `{outcome: retry}` is always the outcome. `reject`
is not a remedy: write `error` for the error, and `{outcome: reject}` for the outcome of that name.""",
    "transforms: a step": """\
Each step replaces its input columns with its result. The first columns are the fields and features, under their names.
`- log1p: amount` is short for `- log1p: {of: [amount]}`.""",
    "model, models: a model": """\
With `columns: from transforms` the columns are all that transforms made or changed, in the order of fields and features.
A column may be `NAME.score` of an earlier model.""",
    "policy": """\
Of the outcomes that the band and the rules give, the most severe counts. Bands are written from mild to severe.
[The policy's own page](policy.md) has its expressions.""",
    "model: explain": "[The file of the trees](explain-sidecar.md) has its own page.",
}


def render() -> str:
    """The whole page, as Markdown."""
    parts = [_HEAD]
    for title, model in _SECTIONS:
        parts.append(_section(f"## {title}", model, _NOTES.get(title)))
        if model is transforms.Transform:
            steps = {name: get_args(field.annotation)[0] for name, field in model.model_fields.items()}
            parts += [_section(f"### {name}", step, None) for name, step in steps.items()]
    return "\n".join(parts)


def _section(title: str, model: type[BaseModel], note: str | None) -> str:
    rows = [_row(field.alias or name, field) for name, field in model.model_fields.items()]
    text = "\n\n".join(part for part in (model.__doc__, note) if part)
    return f"{title}\n\n{text}\n\n| key | default | allowed | meaning |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"


def _row(key: str, field: FieldInfo) -> str:
    cells = (f"`{key}`", _default(field), _allowed(field), field.description or "")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = written_value(field.get_default(call_default_factory=True))
    return (
        ""
        if default is None or default in ({}, [])
        else f"`{default if not isinstance(default, bool) else str(default).lower()}`"
    )


def _allowed(field: FieldInfo) -> str:
    for mark in field.metadata:
        if isinstance(mark, Allowed):
            return mark.text
    return _allowed_text(field.annotation)


def _allowed_text(annotation: Any) -> str:
    """The allowed values of a type, for fields without their own."""
    if isinstance(annotation, type) and issubclass(annotation, Duration | Rate):
        return annotation.ALLOWED
    for part in get_args(annotation):
        if isinstance(part, Allowed):
            return part.text
        if text := _allowed_text(part):
            return f"names: {text}" if get_origin(annotation) is dict else text
    return ""


if __name__ == "__main__":
    sys.stdout.write(render())
