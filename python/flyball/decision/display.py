"""How specs and checks look in a shell and in a notebook. Must not know how decisions run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flyball.rows.html_table import html_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flyball.decision.spec.spec import Spec
    from flyball.native.server_documents import PlannedStage

_NAMES_MAX = 30


def spec_text(spec: Spec) -> str:
    """One line: its name, how large it is, and its outcomes."""
    counts = [
        _count(len(spec.input), "field"),
        _count(len(spec.features), "feature"),
        _count(len(spec.transforms), "transform"),
        _count(len(_models(spec)), "model") or "rules only",
    ]
    return f"{spec.decision}: {', '.join(filter(None, counts))}; {', '.join(_outcomes(spec))}"


def spec_html(spec: Spec) -> str:
    """A table of its parts."""
    bands = {name: f"{name} {band.text()}" for name, band in spec.policy.bands.items()}
    parts = {
        "decision": spec.decision,
        "owner": spec.owner,
        "purpose": spec.purpose,
        "fields": _listed([f"{name} ({field.type})" for name, field in spec.input.items()]),
        "features": _listed(list(spec.features)),
        "models": _listed(_models(spec)),
        "rules": str(len(spec.policy.rules) or ""),
        "outcomes": ", ".join(bands.values()) or ", ".join(_outcomes(spec)),
    }
    return html_table((), [(name, text) for name, text in parts.items() if text])


def checked_text(name: str, stages: Sequence[PlannedStage]) -> str:
    """One line: the stages that a request passes."""
    return f"{name}: valid; {' → '.join(stage.stage for stage in stages)}"


def checked_html(stages: Sequence[PlannedStage]) -> str:
    """A table of the compiled stages, as `flyball plan` shows them."""
    lines = [(stage.stage if index == 0 else "", line) for stage in stages for index, line in enumerate(stage.lines)]
    return html_table(("stage", "what it does"), lines)


def _models(spec: Spec) -> list[str]:
    models = spec.models or ({} if spec.model is None else {"": spec.model})
    return [" ".join(filter(None, (name, str(model.path)))) for name, model in models.items()]


def _outcomes(spec: Spec) -> list[str]:
    """From mild to severe."""
    policy = spec.policy
    return policy.outcomes or list(dict.fromkeys(band.outcome or name for name, band in policy.bands.items()))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}" if number else ""


def _listed(names: Sequence[str]) -> str:
    more = f", and {len(names) - _NAMES_MAX} more" if len(names) > _NAMES_MAX else ""
    return ", ".join(names[:_NAMES_MAX]) + more
