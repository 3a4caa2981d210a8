"""The equivalence certificate: on which rows, and within which bound, a candidate matches the original.

It names both by digest, so that it applies to no other file, and for a decision also the path to the model's score. It is
part of the signed package, and promotion reads it. See docs/reference/equivalence-certificate.md.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from flyball.documents.faults import Allowed, faults_of
from flyball.errors import RefusedError
from flyball.models.equivalence.comparison import Comparison, Errors
from flyball.models.equivalence.document import Document
from flyball.models.equivalence.gate import Outcome, Verdict
from flyball.native.machine import build_info, machine

CERTIFICATE = "equivalence.json"
_BYTES_MAX = 4 << 20
_MAKE = "make one:  flyball optimize   or   flyball convert"
_Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$"), Allowed("sha256: and 64 hexadecimal digits")]
_Text = Annotated[str, Field(min_length=1, max_length=1024), Allowed("a text of 1 to 1024 characters")]


class Original(Document):
    """The trained model: the digest of its file or a substitute, and its kind."""

    digest: _Digest
    kind: _Text


class Candidate(Document):
    """The model that will serve: the ONNX file's digest, and the score path's if a whole decision was compared."""

    digest: _Digest
    way: _Digest | None = None


class Data(Document):
    """The compared rows: their number by kind, and a digest of their source."""

    digest: _Digest
    rows: Annotated[int, Field(ge=1)]
    kinds: dict[str, int]

    @classmethod
    def of(cls, digest: str, comparison: Comparison) -> Data:
        """The rows of a comparison; `digest` is that of their source."""
        return cls(digest=digest, rows=comparison.all.rows, kinds=comparison.rows_by_kind)


class Engine(Document):
    """The engine that computed the candidate's answers."""

    flyball: _Text
    onnxruntime: _Text
    cpu: _Text

    @classmethod
    def here(cls, onnxruntime: str) -> Engine:
        """This build on this machine, with this version of ONNX Runtime."""
        return cls(flyball=build_info().version, onnxruntime=onnxruntime, cpu=machine().cpu_model)


class Certificate(Document):
    """The whole document. A file whose verdict and outcome do not follow from its figures is refused."""

    format: Literal["flyball.equivalence/1"] = "flyball.equivalence/1"
    made: _Text
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
            raise ValueError("its bound is not a finite number of 0 or more")
        for what, follows in _derived(self):
            if not follows:
                raise ValueError(f"{what} does not follow from its figures")
        return self

    def to_bytes(self) -> bytes:
        """The file's content."""
        return (self.model_dump_json(indent=2) + "\n").encode()

    @property
    def words(self) -> str:
        """A one-line summary."""
        errors = self.comparison.all
        summary = f"differs from {self.original.kind} by at most {errors.max_abs:.3g} on {errors.rows:,} rows"
        match self.outcome:
            case "equal":
                return f"{summary}; {self.comparison.allowed} is allowed"
            case "within_gate":
                return f"{summary}; {self.gate.message if self.gate else ''}"
            case _:
                why = self.gate.message if self.gate else f"{errors.beyond:,} are beyond {self.comparison.allowed}"
                return f"{summary}: {why}"


def outcome_of(comparison: Comparison, gate: Verdict | None) -> Outcome:
    """Equal if every row is within the bound; else the gate decides, and without a gate it is refused."""
    if comparison.equal:
        return "equal"
    return "within_gate" if gate is not None and gate.passed else "refused"


def _derived(made: Certificate) -> Iterator[tuple[str, bool]]:
    """Each derived value, and whether it follows from the figures."""
    comparison, gate = made.comparison, made.gate
    for errors in (comparison.all, *comparison.by_kind.values()):
        yield "the number of rows beyond the bound", _counted(errors, comparison)
    counts = comparison.rows_by_kind
    yield "the number of rows", comparison.all.rows == made.data.rows == sum(counts.values()) and made.data.kinds == counts
    yield "the number of rows beyond", comparison.all.beyond == sum(errors.beyond for errors in comparison.by_kind.values())
    if gate is not None and gate.passed:
        yield "the gate's verdict", bool(gate.findings) and all(finding.passed for finding in gate.findings)
    for finding in gate.findings if gate is not None else ():
        yield f"the finding on {finding.what}", not finding.passed or finding.tested <= finding.bar
    yield "the outcome", made.outcome == outcome_of(comparison, gate)


def _counted(errors: Errors, comparison: Comparison) -> bool:
    """A row is beyond only if its difference exceeds the bound, so the largest difference shows whether any may be.

    Without a relative tolerance, it also shows whether any must be.
    """
    within = 0 <= errors.max_abs <= comparison.bound
    if errors.beyond == 0:
        return within or (
            comparison.relative > 0 and 0 <= errors.max_abs < sys.float_info.max
        )  # the maximum means a lost answer
    return not within and 0 < errors.beyond <= errors.rows


def certify(*, comparison: Comparison, gate: Verdict | None = None, **parts: Any) -> Certificate:
    """Create a certificate with the current time; `parts` are its original, candidate, data and engine."""
    made, outcome = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), outcome_of(comparison, gate)
    return Certificate(made=made, comparison=comparison, gate=gate, outcome=outcome, **parts)


def read_certificate(path: Path) -> Certificate:
    """Read a certificate; the error lists all of its faults."""
    try:
        with path.open("rb") as file:
            content = file.read(_BYTES_MAX + 1)
    except OSError as error:
        raise RefusedError(
            f"cannot read {path}: {error.strerror}", next_step=f"name the {CERTIFICATE} beside the model"
        ) from error
    if len(content) > _BYTES_MAX:
        raise RefusedError(f"{path} exceeds the limit of {_BYTES_MAX >> 20} MiB for a certificate", next_step=_MAKE)
    try:
        return Certificate.model_validate_json(content)
    except ValidationError as error:
        faults = faults_of(error, Certificate)
        raise RefusedError(
            f"{path} is not a valid equivalence certificate: {len(faults)} faults",
            faults=faults,
            next_step=_MAKE,
        ) from error
