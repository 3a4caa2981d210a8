"""The equivalence certificate: that a candidate answers as the original did, on which rows, within which bound.

Names both by digest, so that it proves nothing about any other file; where a decision was asked, also the way to the model's
score. It travels in the package, where it is signed like every other file, and a promotion reads it. Described in
docs/reference/equivalence-certificate.md.
"""

from __future__ import annotations

import math
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from flyball.documents.faults import Allowed, faults_of
from flyball.errors import RefusedError
from flyball.models.equivalence.comparison import Comparison, Errors
from flyball.models.equivalence.gate import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CERTIFICATE = "equivalence.json"
_BYTES_MAX = 4 << 20
_MAKE = "make one:  flyball optimize   or   flyball convert"
_Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$"), Allowed("sha256: and 64 hexadecimal digits")]
_Words = Annotated[str, Field(min_length=1, max_length=1024), Allowed("a text of 1 to 1024 characters")]


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Original(_Document):
    """What was trained: a digest of its file, or of what stands for one, and what it is."""

    digest: _Digest
    kind: _Words


class Candidate(_Document):
    """What will serve: the ONNX file's digest, and that of the way to its score where a whole decision answered."""

    digest: _Digest
    way: _Digest | None = None


class Data(_Document):
    """The rows that both answered, how many of each kind, and a digest of what they were made of."""

    digest: _Digest
    rows: Annotated[int, Field(ge=1)]
    kinds: dict[str, int]


class Engine(_Document):
    """What computed the candidate's answers."""

    flyball: _Words
    onnxruntime: _Words
    cpu: _Words


class Certificate(_Document):
    """All of it. Verdict and outcome follow from the figures; a file in which they do not is refused."""

    format: Literal["flyball.equivalence/1"] = "flyball.equivalence/1"
    made: _Words
    original: Original
    candidate: Candidate
    data: Data
    engine: Engine
    comparison: Comparison
    gate: Verdict | None
    outcome: Outcome

    @model_validator(mode="after")
    def _follows(self) -> Self:
        if not all(math.isfinite(part) and part >= 0 for part in (self.comparison.bound, self.comparison.relative)):
            raise ValueError("its bound is no finite number of 0 or more")
        for what, follows in _derived(self):
            if not follows:
                raise ValueError(f"{what} does not follow from its figures")
        return self

    def to_bytes(self) -> bytes:
        """The file."""
        return (self.model_dump_json(indent=2) + "\n").encode()

    @property
    def words(self) -> str:
        """One line for people."""
        errors = self.comparison.all
        said = f"differs from {self.original.kind} by {errors.max_abs:.3g} at most on {errors.rows:,} rows"
        match self.outcome:
            case "equal":
                return f"{said}; {self.comparison.allowed} is allowed"
            case "within_gate":
                return f"{said}; {self.gate.words if self.gate else ''}"
            case _:
                why = self.gate.words if self.gate else f"{errors.beyond:,} lie beyond {self.comparison.allowed}"
                return f"{said}: {why}"


def outcome_of(comparison: Comparison, gate: Verdict | None) -> Outcome:
    """Equal where every row lies within the bound; else what the gate says, and without one it is refused."""
    if comparison.equal:
        return "equal"
    return "within_gate" if gate is not None and gate.passed else "refused"


def _derived(made: Certificate) -> Iterator[tuple[str, bool]]:
    """What the figures decide, and whether it is so."""
    told, gate = made.comparison, made.gate
    for errors in (told.all, *told.by_kind.values()):
        yield "how many rows lie beyond the bound", _counted(errors, told)
    counts = {kind: errors.rows for kind, errors in told.by_kind.items()}
    yield "the number of rows", told.all.rows == made.data.rows == sum(counts.values()) and made.data.kinds == counts
    yield "the number of rows beyond", told.all.beyond == sum(errors.beyond for errors in told.by_kind.values())
    if gate is not None and gate.passed:
        yield "the gate's verdict", bool(gate.findings) and all(finding.passed for finding in gate.findings)
    for finding in gate.findings if gate is not None else ():
        yield f"the finding on {finding.what}", not finding.passed or finding.judged <= finding.bar
    yield "the outcome", made.outcome == outcome_of(told, gate)


def _counted(errors: Errors, told: Comparison) -> bool:
    """A row lies beyond only where its difference is above the bound, so the largest one tells whether there may be any.

    Without a part of the answer's size on top, it also tells whether there must be.
    """
    within = 0 <= errors.max_abs <= told.bound
    if errors.beyond == 0:
        return within or (told.relative > 0 and 0 <= errors.max_abs < sys.float_info.max)  # which stands for a lost answer
    return not within and 0 < errors.beyond <= errors.rows


def certify(
    *,
    original: Original,
    candidate: Candidate,
    data: Data,
    engine: Engine,
    comparison: Comparison,
    gate: Verdict | None = None,
) -> Certificate:
    """Put a certificate together now."""
    return Certificate(
        made=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        original=original,
        candidate=candidate,
        data=data,
        engine=engine,
        comparison=comparison,
        gate=gate,
        outcome=outcome_of(comparison, gate),
    )


def read_certificate(path: Path) -> Certificate:
    """A certificate's file; raises with all of its faults."""
    try:
        with path.open("rb") as file:
            content = file.read(_BYTES_MAX + 1)
    except OSError as error:
        raise RefusedError(
            f"cannot read {path}: {error.strerror}", next_step=f"name the {CERTIFICATE} that lies beside the model"
        ) from error
    if len(content) > _BYTES_MAX:
        raise RefusedError(f"{path} has more than {_BYTES_MAX >> 20} MiB, and no certificate has", next_step=_MAKE)
    try:
        return Certificate.model_validate_json(content)
    except ValidationError as error:
        faults = faults_of(error, Certificate)
        raise RefusedError(
            f"{path} is no equivalence certificate: {len(faults)} faults",
            faults=faults,
            next_step=_MAKE,
        ) from error
