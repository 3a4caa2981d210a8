"""One model in this process, run by the engine that serves: NumPy arrays in and out, timings, profiles.

Whatever is compared, measured or explained about an ONNX model comes from here, so that it is what a server would do.
Never imports the `onnxruntime` package. Must not know what answers are compared with, nor the command line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from flyball.errors import UsageError
from flyball.native.boundary import boundary, naming, native, ort_library
from flyball.native.model_documents import Ceiling, ModelFacts, RunFigures
from flyball.native.models import PROBE_MS_MAX
from flyball.rows.tensors import Array, Tensor, decode, encode

Graph = Literal["off", "basic", "extended", "all"]


class Model:
    """One session of a model, with a server's settings: one thread, no spinning, all graph optimisations.

    `facts` say what it takes and gives. Runs wait for each other, do not hold the GIL, and end at Ctrl-C.
    """

    facts: ModelFacts

    def __init__(
        self, path: Path, *, graph: Graph = "all", profile: Path | None = None, weights_as_given: bool = False
    ) -> None:
        """`graph`: how far ONNX Runtime rewrites it first; `profile`: how the path begins that ONNX Runtime writes to.

        `weights_as_given`: they are not laid out anew. That is slower, and then a profile tells their shapes as well.
        """
        options: dict[str, object] = {"ort_path": str(ort_library()), "probe_ms_max": PROBE_MS_MAX, "graph": graph}
        if profile is not None:
            options["profile"] = str(profile)
        if weights_as_given:
            options["weights_as_given"] = True
        with naming(path), boundary():
            self._model = native.Model(str(path), json.dumps(options).encode())
            self.facts = ModelFacts.model_validate_json(self._model.facts())

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """What the model gives for these inputs; strings come and go as arrays of `str`."""
        with boundary():
            return _arrays(self._model.run(_raw(inputs)))

    def measure(self, inputs: Mapping[str, Array], runs: int = 1000, warm_runs: int = 100) -> RunFigures:
        """How long runs on these inputs take, one after the other: at most a million, after some that do not count."""
        with boundary():
            return RunFigures.model_validate_json(self._model.measure(_raw(inputs), runs, warm_runs))

    def made_up(self, rows: int = 1) -> dict[str, Array]:
        """Inputs of so many rows, made up as `flyball inspect` does; refused where the model does not run on any."""
        with boundary():
            return _arrays(self._model.made_up(rows))

    def end_profile(self) -> Path:
        """End the profile that the model was loaded with; the file that ONNX Runtime wrote."""
        with boundary():
            path = Path(self._model.end_profile())
        if not path.is_file():  # it says nothing where it cannot write
            raise UsageError(
                f"ONNX Runtime could not write {path}", next_step="name a folder that is there, with room in it"
            )
        return path


def ceiling() -> Ceiling:
    """What one thread of this machine can do at most, measured anew."""
    with boundary():
        return Ceiling.model_validate_json(native.ceiling())


def _raw(inputs: Mapping[str, Array]) -> list[tuple[str, str, tuple[int, ...], bytes]]:
    tensors = [encode(name, array) for name, array in inputs.items()]
    return [(tensor.name, tensor.datatype, tensor.shape, tensor.raw) for tensor in tensors]


def _arrays(given: list[tuple[str, str, list[int], bytes]]) -> dict[str, Array]:
    return {name: decode(Tensor(name, datatype, tuple(shape), raw)) for name, datatype, shape, raw in given}
