"""The models that a decision asks, the ways from their columns to a score, and which way a request takes.

Must not know how a model is loaded.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field as Words
from pydantic import model_validator

from flyball.decision.spec.parts import Columns, Digest, Key, Name, Number, Numbers, Part, Path, words
from flyball.decision.spec.shorthand import ELEMENT_ALLOWED, not_allowed, read_element
from flyball.documents.faults import Allowed

FROM_TRANSFORMS = "from transforms"
_COLUMNS_ALLOWED = '"from transforms", a list of columns in the model\'s order, or such a list for each input tensor'


class Score(Part):
    """Which element of which output is the score. Written `probabilities[1]`."""

    output: Annotated[str, Words(min_length=1, max_length=1024), Allowed(ELEMENT_ALLOWED)]
    element: Annotated[int, Words(ge=0, le=2**31 - 1), Allowed(ELEMENT_ALLOWED)] = 0

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, value: Any) -> Any:
        return read_element(value) if isinstance(value, str) else value


class _File(Part):
    """A file with its digest; written as its path alone where there is none."""

    path: Path = Words(description="the file")
    digest: Digest | None = words("verified where it is given")

    @model_validator(mode="before")
    @classmethod
    def _path_alone(cls, value: Any) -> Any:
        return {"path": value} if isinstance(value, str) else value


class Trees(_File):
    """Exact contributions of a tree ensemble, by the file that its conversion left beside the model."""


class Linear(Part):
    """coefficient × (x − mean), for each column."""

    coefficients: Numbers = Words(description="for each column")
    means: Numbers = Words(description="for each column")


class Ablation(Part):
    """Each column in turn takes its value of the baseline, and the score's change is its contribution."""

    baseline: Numbers = Words(description="for each column")


class Explain(Part):
    """How a model's answers are explained. Just one of the keys."""

    trees: Trees | None = words("by the trees themselves: the file that their conversion left")
    linear: Linear | None = words("by coefficients")
    ablation: Ablation | None = words("by leaving columns out, one by one")

    @model_validator(mode="after")
    def _one_way(self) -> Explain:
        if [self.trees, self.linear, self.ablation].count(None) != 2:
            raise not_allowed("just one of trees, linear and ablation")
        return self


class Tensor(Part):
    """An input tensor of the model, and the columns that it is made of."""

    tensor: Annotated[str, Words(min_length=1, max_length=1024), Allowed("the name of an input tensor")] | None = None
    columns: Columns | None = None


class Previous(_File):
    """The version before, kept warm for the remedy `previous_version`: same columns, same score."""

    path: Path = Words(description="the ONNX file")


class Model(Part):
    """An ONNX model, the columns that go in, and the element that comes out."""

    path: Path = Words(
        description="the ONNX file; or `ref`, NAME@VERSION of the registry that the decision is registered in"
    )
    digest: Digest | None = words("verified where it is given; without it the file is taken as it is")
    name: Key | None = words("its name in answers; by default the file's. Of `model` only")
    columns: Annotated[list[Tensor], Words(min_length=1, max_length=256)] = Words(
        default=[Tensor()],
        description='"from transforms": all columns that transforms touched, in order; or a list; or a list for each tensor',
    )
    score: Score = Words(description="which element of which output is the score, `probabilities[1]`")
    explain: Explain | None = words("how its answers are explained; without it not at all")
    previous: Previous | None = words("the version before, kept warm. Of `model` only")

    @model_validator(mode="before")
    @classmethod
    def _ref(cls, value: Any) -> Any:
        """A version of the registry stands where a path would: `register` pins it, and nothing else knows it."""
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
    """A way to a score: one model, a chain, or an ensemble. `a: [x, y]` is a chain whose last model has the score."""

    models: Annotated[list[Key], Words(min_length=1, max_length=16), Allowed("a list of 1 to 16 models")] = Words(
        description="in the order in which they run; a later one may take the column `NAME.score` of one before"
    )
    weights: Annotated[dict[Key, Number], Words(max_length=16)] | None = words(
        "of each model's score in the sum; by default 1 for the last model"
    )

    @model_validator(mode="before")
    @classmethod
    def _models_alone(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"models": [value]}
        return {"models": value} if isinstance(value, list | tuple) else value


_Share = Annotated[float, Words(ge=0, le=1, allow_inf_nan=False), Allowed("a share of requests, 0 to 1")]


class Route(Part):
    """Which variant a request takes."""

    split: Annotated[dict[Key, _Share], Words(max_length=16)] = Words(
        default={}, description="shares of requests for other variants than the first"
    )
    sticky: Name | None = words("the field by which requests stick to their variant; by default the input's key")
    shadow: Annotated[list[Key], Words(max_length=16), Allowed("a list of variants")] = Words(
        default=[], description="variants that run beside it and are never in the answer"
    )
    fallback: Key | None = words("the variant of the remedy previous_version, kept warm")


Remedy = Literal["error", "shed", "retry", "rules", "previous_version", "outcome"]
REMEDY_WORDS = ("error", "shed", "retry", "rules", "previous_version")
"""Remedies that are written as a word; any other word is an outcome of the policy."""
_REMEDY_ALLOWED = f"{', '.join(REMEDY_WORDS)}, or an outcome of the policy"
_REJECT_ALLOWED = "error to answer with an error (the remedy has no other name), or {outcome: reject} for the outcome"


class Remedied(Part):
    """What is done instead of failing."""

    do: Remedy
    outcome: Annotated[str, Words(min_length=1, max_length=128), Allowed("an outcome")] | None = None

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, value: Any) -> Any:
        if isinstance(value, dict) and set(value) == {"outcome"}:
            return {"do": "outcome", "outcome": value["outcome"]}
        if not isinstance(value, str) or not value:
            raise not_allowed(_REMEDY_ALLOWED)
        if value == "reject":  # it reads as both: a request that is turned away, and the most usual name of an outcome
            raise not_allowed(_REJECT_ALLOWED)
        return {"do": value} if value in REMEDY_WORDS else {"do": "outcome", "outcome": value}


def _remedy(description: str) -> Any:
    return Words(default=Remedied.model_validate("error"), description=description)


class Remedies(Part):
    """For each fault, what is done instead of failing; by default the caller gets an error (`error`)."""

    model_unavailable: Remedied = _remedy("the model is not there, breaks or fails on this input")
    timeout: Remedied = _remedy("the deadline would pass")
    queue_full: Remedied = _remedy("too many requests are waiting")
    feature_error: Remedied = _remedy("a feature's reaction is `fault`")
    invalid_input: Remedied = _remedy("the input does not hold to the schema")
    guard_violated: Remedied = _remedy("an input or the score is outside its guard")
    record_error: Remedied = _remedy("the record cannot be kept")


class Idempotency(Part):
    """How long a retry with the same key gets the same decision."""

    window_s: Annotated[int, Words(ge=1, le=604_800), Allowed("a whole number, 1 to 604800")] = Words(
        default=3600, description="seconds for which a key is known"
    )
    entries_max: Annotated[int, Words(ge=1, le=10_000_000), Allowed("a whole number, 1 to 10000000")] = Words(
        default=100_000, description="rows whose answers are kept at most; a key without an answer counts as one"
    )
