"""Models of a decision, variants that compute a score, and the route of a request.

Must not know how a model is loaded.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field as Attr
from pydantic import model_validator

from flyball.decision.spec.parts import Columns, Digest, Key, Name, Number, Numbers, Part, Path, from_text, optional
from flyball.decision.spec.shorthand import ELEMENT_ALLOWED, not_allowed, read_element
from flyball.documents.faults import Allowed

FROM_TRANSFORMS = "from transforms"
_COLUMNS_ALLOWED = '"from transforms", a list of columns in the model\'s order, or such a list for each input tensor'


class Score(Part):
    """Which element of which output is the score. Written `probabilities[1]`."""

    output: Annotated[str, Attr(min_length=1, max_length=1024), Allowed(ELEMENT_ALLOWED)]
    element: Annotated[int, Attr(ge=0, le=2**31 - 1), Allowed(ELEMENT_ALLOWED)] = 0

    _shorthand = from_text(read_element)


class _File(Part):
    """A file with its digest; a path alone has no digest."""

    path: Path = Attr(description="the file")
    digest: Digest | None = optional("verified if given")

    _path_alone = from_text(lambda path: {"path": path})


class Trees(_File):
    """Exact contributions of a tree ensemble, by the sidecar file beside the model."""


class Linear(Part):
    """coefficient × (x − mean), for each column."""

    coefficients: Numbers = Attr(description="for each column")
    means: Numbers = Attr(description="for each column")


class Ablation(Part):
    """Each column in turn is set to its baseline, and the score's change is its contribution."""

    baseline: Numbers = Attr(description="for each column")


class Explain(Part):
    """How a model's answers are explained. Exactly one of the keys."""

    trees: Trees | None = optional("by the trees themselves: the file that their conversion left")
    linear: Linear | None = optional("by coefficients")
    ablation: Ablation | None = optional("by leaving columns out, one by one")

    @model_validator(mode="after")
    def _one_way(self) -> Explain:
        if [self.trees, self.linear, self.ablation].count(None) != 2:
            raise not_allowed("exactly one of trees, linear and ablation")
        return self


class Tensor(Part):
    """An input tensor of the model, and the columns that it is made of."""

    tensor: Annotated[str, Attr(min_length=1, max_length=1024), Allowed("the name of an input tensor")] | None = None
    columns: Columns | None = None


class Previous(_File):
    """The previous version, kept warm for the remedy `previous_version`: same columns, same score."""

    path: Path = Attr(description="the ONNX file")


class Model(Part):
    """An ONNX model, the columns that go in, and the element that comes out."""

    path: Path = Attr(description="the ONNX file; or `ref`, NAME@VERSION of the registry that the decision is registered in")
    digest: Digest | None = optional("verified if given; without it the file is used as it is")
    name: Key | None = optional("its name in answers; by default the file's. Of `model` only")
    columns: Annotated[list[Tensor], Attr(min_length=1, max_length=256)] = Attr(
        default=[Tensor()],
        description='"from transforms": all columns that transforms made, in order; or a list; or a list per tensor',
    )
    score: Score = Attr(description="which element of which output is the score, `probabilities[1]`")
    explain: Explain | None = optional("how its answers are explained; without it not at all")
    previous: Previous | None = optional("the version before, kept warm. Of `model` only")

    @model_validator(mode="before")
    @classmethod
    def _ref(cls, value: Any) -> Any:
        """Accept `ref`, a version in the registry, instead of a path: only `register` resolves it."""
        if not isinstance(value, dict) or "ref" not in value or "path" in value:
            return value
        return {"path": value["ref"], **{key: part for key, part in value.items() if key != "ref"}}

    @model_validator(mode="before")
    @classmethod
    def _columns(cls, value: Any) -> Any:
        if not isinstance(value, dict) or "columns" not in value:
            return value
        match value["columns"]:
            case str(text) if text == FROM_TRANSFORMS:
                tensors: list[Any] = [{}]
            case str(text):
                raise not_allowed(_COLUMNS_ALLOWED)
            case dict(given):
                tensors = [{"tensor": name, "columns": columns} for name, columns in given.items()]
            case list(given) if all(isinstance(item, str) for item in given):
                tensors = [{"columns": given}]
            case other:
                tensors = other
        return {**value, "columns": tensors}


class Variant(Part):
    """Computes a score: one model, a chain, or an ensemble. `a: [x, y]` is a chain whose last model has the score."""

    models: Annotated[list[Key], Attr(min_length=1, max_length=16), Allowed("a list of 1 to 16 models")] = Attr(
        description="in the order in which they run; a later one may use the column `NAME.score` of an earlier one"
    )
    weights: Annotated[dict[Key, Number], Attr(max_length=16)] | None = optional(
        "of each model's score in the sum; by default 1 for the last model"
    )

    @model_validator(mode="before")
    @classmethod
    def _models_alone(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"models": [value]}
        return {"models": value} if isinstance(value, list | tuple) else value


_Share = Annotated[float, Attr(ge=0, le=1, allow_inf_nan=False), Allowed("a share of requests, 0 to 1")]


class Route(Part):
    """Which variant a request gets."""

    split: Annotated[dict[Key, _Share], Attr(max_length=16)] = Attr(
        default={}, description="shares of requests for other variants than the first"
    )
    sticky: Name | None = optional("the field by which requests stick to their variant; by default the input's key")
    shadow: Annotated[list[Key], Attr(max_length=16), Allowed("a list of variants")] = Attr(
        default=[], description="variants that run as shadows and are never in the answer"
    )
    fallback: Key | None = optional("the variant of the remedy previous_version, kept warm")


Remedy = Literal["error", "shed", "retry", "rules", "previous_version", "outcome"]
REMEDY_WORDS = ("error", "shed", "retry", "rules", "previous_version")
"""Remedies that are written as a word; any other word is an outcome of the policy."""
_REMEDY_ALLOWED = f"{', '.join(REMEDY_WORDS)}, or an outcome of the policy"
_REJECT_ALLOWED = "error to answer with an error (the remedy has no other name), or {outcome: reject} for the outcome"


class Remedied(Part):
    """The remedy for a kind of fault."""

    do: Remedy
    outcome: Annotated[str, Attr(min_length=1, max_length=128), Allowed("an outcome")] | None = None

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, value: Any) -> Any:
        if isinstance(value, dict) and set(value) == {"outcome"}:
            return {"do": "outcome", "outcome": value["outcome"]}
        if not isinstance(value, str) or not value:
            raise not_allowed(_REMEDY_ALLOWED)
        if value == "reject":  # ambiguous: a refused request, or the most common outcome
            raise not_allowed(_REJECT_ALLOWED)
        return {"do": value} if value in REMEDY_WORDS else {"do": "outcome", "outcome": value}


def _remedy(description: str) -> Any:
    return Attr(default=Remedied.model_validate("error"), description=description)


class Remedies(Part):
    """What to do for each kind of fault; by default the caller gets an error (`error`)."""

    model_unavailable: Remedied = _remedy("the model is not loaded, or fails on this input")
    timeout: Remedied = _remedy("the deadline would pass")
    queue_full: Remedied = _remedy("too many requests are waiting")
    feature_error: Remedied = _remedy("a feature's reaction is `fault`")
    invalid_input: Remedied = _remedy("the input does not match the schema")
    guard_violated: Remedied = _remedy("an input or the score is outside its guard")
    record_error: Remedied = _remedy("the record cannot be written")


class Idempotency(Part):
    """How long a retry with the same key gets the same decision."""

    window_s: Annotated[int, Attr(ge=1, le=604_800), Allowed("a whole number, 1 to 604800")] = Attr(
        default=3600, description="how long a key is stored, in seconds"
    )
    entries_max: Annotated[int, Attr(ge=1, le=10_000_000), Allowed("a whole number, 1 to 10000000")] = Attr(
        default=100_000, description="maximum number of rows with stored answers; a key without an answer counts as one"
    )
