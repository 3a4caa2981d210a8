"""The equivalence certificate: that a candidate answers as the original did, on which rows, within which bound.

Names both by digest, so that it proves nothing about any other file. It travels in the package, where it is signed like
every other file, and a promotion reads it. Described in docs/reference/equivalence-certificate.md.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from flyball.equivalence.comparison import Comparison
from flyball.equivalence.gate import Outcome, Verdict
from flyball.errors import RefusedError
from flyball.faults import Allowed, faults_of

if TYPE_CHECKING:
    from pathlib import Path

CERTIFICATE = "equivalence.json"
_BYTES_MAX = 4 << 20
_Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$"), Allowed("sha256: and 64 hexadecimal digits")]
_Words = Annotated[str, Field(min_length=1, max_length=1024), Allowed("a text of 1 to 1024 characters")]


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Original(_Document):
    """What was trained: its file's digest and what it is."""

    digest: _Digest
    kind: _Words


class Candidate(_Document):
    """What will serve: the ONNX file's digest."""

    digest: _Digest


class Data(_Document):
    """The rows that both answered: their digest, and how many of each kind."""

    digest: _Digest
    rows: Annotated[int, Field(ge=1)]
    kinds: dict[str, int]


class Engine(_Document):
    """What computed the candidate's answers."""

    flyball: _Words
    onnxruntime: _Words
    cpu: _Words


class Certificate(_Document):
    """All of it. `outcome` follows from the figures; a file in which it does not is refused."""

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
        if self.outcome != outcome_of(self.comparison, self.gate):
            raise ValueError("the outcome does not follow from its figures")
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
        raise RefusedError(f"cannot read {path}: {error.strerror}") from error
    if len(content) > _BYTES_MAX:
        raise RefusedError(f"{path} has more than {_BYTES_MAX >> 20} MiB, and no certificate has")
    try:
        return Certificate.model_validate_json(content)
    except ValidationError as error:
        faults = faults_of(error, Certificate)
        raise RefusedError(
            f"{path} is no equivalence certificate: {len(faults)} faults",
            faults=faults,
            next_step="make one:  flyball optimize   or   flyball convert",
        ) from error
