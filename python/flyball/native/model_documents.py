"""What crosses to the engine and back about models: their files, the scan, their signatures, what probing them told.

Must not know the extension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict


class _Document(BaseModel):
    # Extra keys are taken silently: an extension built from a newer commit may tell more.
    model_config = ConfigDict(frozen=True, extra="ignore")


class ExternalData(_Document):
    """A file beside a model that holds some of its weights."""

    name: str
    digest: str
    size_bytes: int


class Opset(_Document):
    """An operator set that a model asks for; the domain "ai.onnx" is ONNX's own."""

    domain: str
    version: int


def _each_domain_once(opsets: list[Opset]) -> list[Opset]:
    """Converters write a domain several times; ONNX Runtime takes the last one."""
    return list({opset.domain: opset for opset in opsets}.values())


Opsets = Annotated[list[Opset], AfterValidator(_each_domain_once)]


class DeclaredTensor(_Document):
    """An input or output as a model's file declares it; None where it does not say."""

    name: str
    datatype: str | None
    shape: list[int] | None


class ModelFiles(_Document):
    """A model's files by digest, and what the file says of itself, read without ONNX Runtime."""

    digest: str
    size_bytes: int
    external_data: list[ExternalData]
    opset: Opsets
    producer: str
    nodes: int
    inputs: list[DeclaredTensor]
    outputs: list[DeclaredTensor]


class TensorSpec(_Document):
    """One input or output: its name, V2 datatype, and shape with -1 for free dimensions."""

    name: str
    datatype: str
    shape: list[int]


_Output = TypeVar("_Output", DeclaredTensor, TensorSpec)


def scores(outputs: Sequence[_Output]) -> _Output | None:
    """The last output of floats: classifiers give the label first, and then what it was chosen by."""
    return next((one for one in reversed(outputs) if one.datatype in ("FP16", "FP32", "FP64")), None)


class Batching(_Document):
    """Whether requests may share a run, how many rows such a run may have, and the reason where it may not have more."""

    on: bool
    rows_max: int
    reason: str | None = None


class Latency(_Document):
    """Measured time of one run with so many rows, in µs."""

    rows: int
    p50_us: float
    p99_us: float


class Inspection(_Document):
    """What loading, probing and timing a model told."""

    digest: str
    size_bytes: int
    opset: Opsets
    producer: str
    nodes: int
    ort_version: str
    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    batching: Batching
    latency: list[Latency]


class ModelFacts(_Document):
    """A model that is loaded in this process, as a server loads it."""

    digest: str
    size_bytes: int
    ort_version: str
    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    batching: Batching
    load_ms: float
    """Making the session, which reading and scanning the file goes before."""
    resident_bytes: int
    """By how much the process grew while the session was made."""


class RunFigures(_Document):
    """How long runs took, in µs: on the wall, and the CPU time of a run on average."""

    runs: int
    rows: int
    p50_us: float
    p95_us: float
    p99_us: float
    p999_us: float
    max_us: float
    mean_us: float
    cpu_us: float


class ReadSpeed(_Document):
    """How fast one thread reads so many bytes over and over."""

    set_bytes: int
    bytes_a_second: float


class Ceiling(_Document):
    """What one thread of this machine can do at most."""

    flops: float
    """Additions and multiplications of 32-bit floats, a second."""
    int8_times: float
    """How many more of them of 8-bit integers, by the processor's instructions; not measured."""
    reads: list[ReadSpeed]
    """By size, ascending."""


class ModelScan(_Document):
    """A model that passed the scan: nothing in it is over a limit, and nothing asks for more than its own files."""

    opset: Opsets
    producer: str
    nodes: int
    nodes_expanded: int
    """With the model's own functions written out where they are called."""
    depth: int
    """Graphs inside one another; 0: none is."""
    functions: int
    initialisers: int
    weight_bytes: int
    """In the file and beside it."""
    domains: list[str]
    """Of the operators that it uses."""
    inputs: list[DeclaredTensor]
    outputs: list[DeclaredTensor]
    value_dependent: bool
    """How long it runs depends on the values of its input: it has loops, or makes tensors sized by these values."""
    external_data: dict[str, int]
    """The files beside the model that hold weights, and how many bytes each must have at least."""
