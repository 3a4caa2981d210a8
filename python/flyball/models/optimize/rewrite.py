"""Rewrites a model, optimised or quantised, in a separate process.

The process may fail or be killed safely: its target appears whole or not at all. Must not know why a model is wanted.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from flyball.errors import FlyballError, MissingExtraError
from flyball.models.equivalence.document import Document
from flyball.models.optimize.work_folder import MAKING
from flyball.native.models import model_files, scan_model

_SECONDS_MAX = 1800.0
_WORDS_MAX = 2000
_GO_ON = "serve the original model, or try newer tools:  pip install -U onnx onnxruntime"


class Trim(Document):
    """Keep only these outputs, free the row axis of every input and output, and name the graph.

    `columns` of the only input are kept and renumbered; its trees read no others.
    """

    do: Literal["trim"] = "trim"
    outputs: list[str]
    name: str
    columns: list[int] | None = None


class Graph(Document):
    """ONNX Runtime's optimised graph of a level, saved; `rows` fixes the first axis of every input."""

    do: Literal["graph"] = "graph"
    level: Literal["basic", "extended"]
    rows: Annotated[int, Field(ge=1)] | None = None


class StaticInt8(Document):
    """Weights and activations in 8 bits, with activation ranges from calibration rows.

    `reduce_range`: weights in 7 bits, for CPUs that sum two products in 16 bits, where 8-bit products saturate.
    """

    do: Literal["static_int8"] = "static_int8"
    per_channel: bool
    method: Literal["minmax", "percentile"] = "minmax"
    reduce_range: bool = False


class DynamicInt8(Document):
    """Weights in 8 bits; activations are scaled in each run, over all of its rows."""

    do: Literal["dynamic_int8"] = "dynamic_int8"


Rewrite = Trim | Graph | StaticInt8 | DynamicInt8


class RewriteRefusedError(FlyballError):
    """ONNX Runtime's tools could not rewrite the model; the message is theirs."""

    code = "rewrite_refused"
    exit_code = 3


def rewrite(how: Rewrite, source: Path, target: Path, calibration: Mapping[str, NDArray[np.generic]] | None = None) -> str:
    """Make `target` from `source`; returns its digest. The result is scanned like any other model."""
    with tempfile.TemporaryDirectory(prefix=MAKING, dir=target.parent) as made:
        request = {"how": how.model_dump(), "source": str(source), "target": str(Path(made, "made.onnx"))}
        if calibration is not None:
            np.savez(Path(made, "calibration.npz"), **dict(calibration))  # type: ignore[arg-type]
            request["calibration"] = str(Path(made, "calibration.npz"))
        command = [sys.executable, "-m", "flyball.models.optimize.rewrite_process"]
        try:
            ended = subprocess.run(
                command, input=json.dumps(request), capture_output=True, text=True, timeout=_SECONDS_MAX, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise RewriteRefusedError(
                f"{how.do} of {source.name} took more than {_SECONDS_MAX:.0f} s", next_step=_GO_ON
            ) from error
        if ended.returncode != 0:
            raise _refused(how, source, ended)
        scan_model(Path(made, "made.onnx"))
        Path(made, "made.onnx").replace(target)
    return model_files(target).digest


def _refused(how: Rewrite, source: Path, ended: subprocess.CompletedProcess[str]) -> FlyballError:
    last = (ended.stdout.strip().splitlines() or [""])[-1]
    try:
        failure = json.loads(last)
    except ValueError:
        failure = {"error": ended.stderr.strip()[-_WORDS_MAX:] or f"it ended with {ended.returncode}"}
    if failure.get("missing"):
        return MissingExtraError(
            f"optimising requires {failure['missing']}", next_step="install it:  pip install 'flyball[optimize]'"
        )
    return RewriteRefusedError(f"{how.do} of {source.name} failed: {failure['error'][:_WORDS_MAX]}", next_step=_GO_ON)
