"""What a protocol must be able to say: each request, and how its reply is read. Must not know connections."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from flyball.client.annotations import Annotation
    from flyball.client.decisions import DecideCall
    from flyball.client.metadata import ModelMetadata
    from flyball.rows.tensors import Array, InferCall

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Exchange(Generic[T]):
    """One request, and the function that reads its reply; it raises the error that the reply says."""

    request: Any
    read: Callable[[Any], T]


class Dialect(Protocol):
    """One protocol: V2 over HTTP, or over gRPC."""

    attempts_max: int
    """Attempts of one call, the first included."""

    def live(self) -> Exchange[bool]:
        """Whether the server responds."""

    def ready(self, model: str | None, version: str | None) -> Exchange[bool]:
        """Whether the server, or one model, accepts requests."""

    def metadata(self, model: str, version: str | None) -> Exchange[ModelMetadata]:
        """A model's inputs and outputs."""

    def rows_per_run(self, model: str, version: str | None) -> Exchange[int]:
        """How many rows share a run; 0 if the answer for a row may depend on the others."""

    def infer(self, call: InferCall) -> Exchange[dict[str, Array]]:
        """One inference; the outputs by name."""

    def decide(self, call: DecideCall) -> Exchange[dict[str, Any]]:
        """One request for decisions; the response in its JSON form."""

    def annotate(self, annotation: Annotation) -> Exchange[dict[str, Any]]:
        """An annotation, or a question about annotations."""
