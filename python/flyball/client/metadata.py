"""A model's metadata as the server returns it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class TensorMetadata:
    """One input or output: name, V2 datatype, and shape with -1 for free dimensions."""

    name: str
    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """A model as its server describes it."""

    name: str
    versions: tuple[str, ...]
    platform: str
    inputs: tuple[TensorMetadata, ...]
    outputs: tuple[TensorMetadata, ...]

    def __repr__(self) -> str:
        def listed(tensors: tuple[TensorMetadata, ...]) -> str:
            return ", ".join(f"{item.name} {item.datatype} {shape_text(item.shape)}" for item in tensors)

        return f"<ModelMetadata {self.name}: {listed(self.inputs)} → {listed(self.outputs)}>"

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> ModelMetadata:
        """Parse the V2 JSON form; gRPC messages are converted to it first."""
        return cls(
            name=document["name"],
            versions=tuple(document.get("versions") or ()),
            platform=document.get("platform", ""),
            inputs=_tensors(document.get("inputs")),
            outputs=_tensors(document.get("outputs")),
        )


def shape_text(shape: Iterable[int]) -> str:
    """A shape as the server writes it."""
    return f"[{','.join(map(str, shape))}]"


def _tensors(items: list[dict[str, Any]] | None) -> tuple[TensorMetadata, ...]:
    return tuple(
        TensorMetadata(item["name"], item["datatype"], tuple(int(size) for size in item["shape"])) for item in items or ()
    )
