"""Makes a scenario's model file, and rows for it. Must not know servers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.bench.models.fraud import fraud_rows, make_fraud_gbdt
from flyball.bench.models.perceptron import make_fraud_mlp_12mb
from flyball.bench.models.vision import make_vision_cnn_int8, pictures
from flyball.errors import ModelRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flyball.bench.scenario import MakerName, ModelSource

_MAKERS: dict[MakerName, Callable[..., Path]] = {
    "fraud-gbdt": make_fraud_gbdt,
    "fraud-mlp-12mb": make_fraud_mlp_12mb,
    "vision-cnn-int8": make_vision_cnn_int8,
}


def make_model(source: ModelSource, folder: Path) -> Path:
    """The ONNX file of a source: generated in `folder` under the model's name, or the named file."""
    if source.path is not None:
        path = Path(source.path)
        if not path.is_file():
            raise ModelRefusedError(f"model.path: {path} does not exist", next_step="name an ONNX file")
        return path
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{source.name}.onnx"
    assert source.make is not None  # noqa: S101 - a checked source has one of make and path
    return _MAKERS[source.make](path, seed=source.seed)


def maker_rows(maker: MakerName, count: int, seed: int) -> Iterator[np.ndarray[Any, Any]]:
    """Distinct rows for a maker's model, one at a time."""
    match maker:
        case "fraud-gbdt":
            rows = fraud_rows(count, seed)[0]
        case "fraud-mlp-12mb":
            rows = np.random.default_rng(seed).standard_normal((count, 64)).astype(np.float32)
        case "vision-cnn-int8":
            yield from pictures(count, seed)
            return
    for index in range(count):
        yield rows[index : index + 1]
