"""Checks a decision before it runs: its files, then its semantics.

The data plane's own compiler checks the semantics, through `flyball.native`; there is no second implementation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flyball.decision.compile.document import Compiled, compile_spec
from flyball.decision.display import checked_html, checked_text
from flyball.decision.spec.faults import DecisionRefusedError, Origin, meaning_faults, refusal
from flyball.native import decisions, model_documents, models, server_documents

if TYPE_CHECKING:
    from pathlib import Path

    from flyball.decision.compile.model_documents import Artifact
    from flyball.decision.spec.spec import Spec


@dataclass(frozen=True, slots=True)
class Checked:
    """A valid decision: its document, and its stages as the data plane compiled them."""

    compiled: Compiled
    stages: list[server_documents.PlannedStage]

    def __repr__(self) -> str:
        return f"<Checked {checked_text(self.compiled.name, self.stages)}>"

    def _repr_html_(self) -> str:
        return checked_html(self.stages)


def check(spec: Spec, base: Path, origin: Origin) -> Checked:
    """Compile and check; raises with every fault, at the author's lines."""
    compiled = compile_spec(spec, base, origin)
    answer = decisions.check_decision(compiled.document, [_facts(artifact) for artifact in compiled.artifacts])
    if answer.faults:
        raise refusal(origin, meaning_faults(origin, answer.faults, compiled.document, compiled.singular))
    return Checked(compiled, answer.stages)


def digests_of(compiled: Compiled) -> server_documents.DecisionDigests:
    """The digests by which servers identify the document."""
    answer = decisions.check_decision(compiled.document, [_facts(artifact) for artifact in compiled.artifacts])
    if answer.digests is None:
        raise DecisionRefusedError(f"{compiled.name} is not valid", faults=list(answer.faults))
    return answer.digests


def _facts(artifact: Artifact) -> dict[str, Any]:
    """A model's signature: from its file, or from ONNX Runtime if the file does not declare it."""
    found: model_documents.ModelFiles | model_documents.Inspection = artifact.files
    if any(tensor.datatype is None or tensor.shape is None for tensor in [*found.inputs, *found.outputs]):
        found = models.inspect(artifact.path, rows_max=1)
    return {
        "version": artifact.version,
        "inputs": [tensor.model_dump() for tensor in found.inputs],
        "outputs": [tensor.model_dump() for tensor in found.outputs],
        "explain": None if artifact.explain is None else str(artifact.explain),
    }
