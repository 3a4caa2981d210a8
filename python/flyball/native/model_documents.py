"""Documents about models: files, scans, signatures, probes, timings.

Must not know the extension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeVar

from pydantic import AfterValidator

from flyball.native.answer import Answer


class ExternalData(Answer):
    """A file beside a model with some of its weights."""

    name: str
    digest: str
    size_bytes: int


class Opset(Answer):
    """An operator set that a model requires; the domain "ai.onnx" is ONNX's own."""

    domain: str
    version: int


def _each_domain_once(opsets: list[Opset]) -> list[Opset]:
    """Converters write a domain several times; ONNX Runtime uses the last one."""
    return list({opset.domain: opset for opset in opsets}.values())


Opsets = Annotated[list[Opset], AfterValidator(_each_domain_once)]


class DeclaredTensor(Answer):
    """An input or output as a model's file declares it; None if undeclared."""

    name: str
    datatype: str | None
    shape: list[int] | None


class ModelFiles(Answer):
    """A model's files by digest, and their metadata, read without ONNX Runtime."""

    digest: str
    size_bytes: int
    external_data: list[ExternalData]
    opset: Opsets
    producer: str
    nodes: int
    inputs: list[DeclaredTensor]
    outputs: list[DeclaredTensor]
    optional_inputs: list[DeclaredTensor]
    """Constants that are declared as inputs too."""


class TensorSpec(Answer):
    """One input or output: its name, V2 datatype, and shape with -1 for free dimensions."""

    name: str
    datatype: str
    shape: list[int]


_Output = TypeVar("_Output", DeclaredTensor, TensorSpec)


def scores(outputs: Sequence[_Output]) -> _Output | None:
    """The last float output: classifiers return the label first, then its scores."""
    return next((one for one in reversed(outputs) if one.datatype in ("FP16", "FP32", "FP64")), None)


class Batching(Answer):
    """Whether requests may share a run, the rows per run, and the reason for a limit."""

    on: bool
    rows_max: int
    reason: str | None = None


class NativeTrees(Answer):
    """Whether native trees answer for a tree model, and what their proof against ONNX Runtime found."""

    on: bool
    finding: str


class Latency(Answer):
    """Measured time of one run with this many rows, in µs."""

    rows: int
    p50_us: float
    p99_us: float


class Inspection(Answer):
    """The result of loading, probing and timing a model."""

    digest: str
    size_bytes: int
    opset: Opsets
    producer: str
    nodes: int
    ort_version: str
    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    batching: Batching
    native: NativeTrees | None = None
    """None: not a tree model."""
    latency: list[Latency]


class ModelFacts(Answer):
    """A model loaded in this process, as a server loads it."""

    digest: str
    size_bytes: int
    ort_version: str
    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    batching: Batching
    native: NativeTrees | None = None
    """None: not a tree model."""
    load_ms: float
    """Creating the session, without reading and scanning the file."""
    resident_bytes: int
    """Growth of the process while the session was created."""


class RunFigures(Answer):
    """Wall times of runs in µs, and the mean CPU time of a run."""

    runs: int
    rows: int
    p50_us: float
    p95_us: float
    p99_us: float
    p999_us: float
    max_us: float
    mean_us: float
    cpu_us: float


class ReadSpeed(Answer):
    """The speed at which one thread reads this many bytes repeatedly."""

    set_bytes: int
    bytes_a_second: float


class Ceiling(Answer):
    """Limits of one thread of this machine."""

    flops: float
    """Additions and multiplications of 32-bit floats per second."""
    int8_times: float
    """The factor for 8-bit integers, from the processor's instruction set; not measured."""
    reads: list[ReadSpeed]
    """By size, ascending."""


class ModelScan(Answer):
    """A model that passed the scan: it is within all limits, and uses only its own files."""

    opset: Opsets
    producer: str
    nodes: int
    nodes_expanded: int
    """With the model's own functions inlined."""
    depth: int
    """Nesting of graphs; 0: none."""
    functions: int
    initialisers: int
    weight_bytes: int
    """In the file and beside it."""
    domains: list[str]
    """Domains of its operators."""
    inputs: list[DeclaredTensor]
    outputs: list[DeclaredTensor]
    optional_inputs: list[DeclaredTensor]
    """Constants that are declared as inputs too."""
    moves_texts: bool
    """No operator reads the elements of its BYTES inputs, so they may be any bytes; true without such inputs."""
    value_dependent: bool
    """Its run time depends on input values: it has loops, or tensors sized by these values."""
    external_data: dict[str, int]
    """Files beside the model with weights, and the minimum size of each."""
