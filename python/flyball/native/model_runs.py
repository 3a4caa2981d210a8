"""Runs one model in this process with the serving engine: NumPy arrays in and out, timings, profiles.

Every comparison, measurement and explanation of an ONNX model uses it, so that it shows what a server does.
Never imports the `onnxruntime` package. Must not know what answers are compared with, nor the command line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from flyball.errors import UsageError
from flyball.native.boundary import call, call_on, native, ort_library
from flyball.native.model_documents import Ceiling, ModelFacts, RunFigures
from flyball.native.models import PROBE_MS_MAX
from flyball.rows.tensors import Array, Tensor, decode, encode

Graph = Literal["off", "basic", "extended", "all"]


class Model:
    """One session of a model, with a server's settings: one thread, no spinning, all graph optimisations.

    `facts` has its inputs and outputs. Runs are sequential, release the GIL, and end at Ctrl-C.
    """

    facts: ModelFacts

    def __init__(
        self, path: Path, *, graph: Graph = "all", profile: Path | None = None, weights_as_given: bool = False
    ) -> None:
        """`graph`: the level of graph optimisation; `profile`: the prefix of the profile's path.

        `weights_as_given` disables prepacking, which is slower, but then a profile has the weights' shapes.
        """
        options: dict[str, object] = {"ort_path": str(ort_library()), "probe_ms_max": PROBE_MS_MAX, "graph": graph}
        if profile is not None:
            options["profile"] = str(profile)
        if weights_as_given:
            options["weights_as_given"] = True
        self._model = call_on(path, native.Model, str(path), json.dumps(options).encode())
        self.facts = ModelFacts.model_validate_json(call_on(path, self._model.facts))

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs for these inputs; strings are arrays of `str`."""
        return _arrays(call(self._model.run, _raw(inputs)))

    def measure(self, inputs: Mapping[str, Array], runs: int = 1000, warm_runs: int = 100) -> RunFigures:
        """Time sequential runs on these inputs, at most a million, after warm-up runs."""
        return RunFigures.model_validate_json(call(self._model.measure, _raw(inputs), runs, warm_runs))

    def made_up(self, rows: int = 1) -> dict[str, Array]:
        """Generated inputs with this many rows, as in `flyball inspect`; refused if the model runs on none."""
        return _arrays(call(self._model.made_up, rows))

    def end_profile(self) -> Path:
        """End the profile; returns the file that ONNX Runtime wrote."""
        path = Path(call(self._model.end_profile))
        if not path.is_file():  # ONNX Runtime does not report that it cannot write
            raise UsageError(f"ONNX Runtime could not write {path}", next_step="name an existing folder with free space")
        return path


def ceiling() -> Ceiling:
    """Measure the limits of one thread of this machine."""
    return Ceiling.model_validate_json(call(native.ceiling))


def _raw(inputs: Mapping[str, Array]) -> list[tuple[str, str, tuple[int, ...], bytes]]:
    tensors = [encode(name, array) for name, array in inputs.items()]
    return [(tensor.name, tensor.datatype, tensor.shape, tensor.raw) for tensor in tensors]


def _arrays(given: list[tuple[str, str, list[int], bytes]]) -> dict[str, Array]:
    return {name: decode(Tensor(name, datatype, tuple(shape), raw)) for name, datatype, shape, raw in given}
