"""Step 7: eight bits instead of thirty-two, each way behind the accuracy gate.

Ranges are taken from a part of the given rows, and such a candidate is judged by the others: those that it was made from
would flatter it. Dynamic quantisation scales over all rows of a run, so a row's answer depends on its neighbours: such a
candidate is served without batching or not at all. Tree ensembles compare, and have nothing that could be quantised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.models.optimize.operators import operators_of
from flyball.models.optimize.rewrite import DynamicInt8, StaticInt8
from flyball.models.optimize.steps.export import EXPORTED
from flyball.models.optimize.steps.graph import attempt, judging
from flyball.native.journal import runtime_fingerprint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flyball.bench.progress import Progress
    from flyball.models.optimize.candidate import Candidate
    from flyball.models.optimize.original import Original
    from flyball.models.optimize.pipeline import Found
    from flyball.models.optimize.rows import Rows

_QUANTISABLE = ("Conv", "ConvTranspose", "Gemm", "LSTM", "MatMul", "Attention", "EmbedLayerNormalization", "Gather")
_CALIBRATION_ROWS = (32, 512)
_CALIBRATION_SHARE = 4  # one row of so many; of fewer than 4 × 32 rows nothing can be held out
_CALIBRATION_BYTES = 16 << 20  # of pictures fewer: the quantiser keeps what every layer makes of each
_DYNAMIC = "dynamic-int8"
_AT_ONCE = frozenset({"avxvnni", "avx512vnni", "amx_int8"})  # they add four products up in 32 bits
_SEVEN_BITS = "; weights in 7 bits, for 8-bit products of this CPU saturate"
_WAYS: dict[str, tuple[str, StaticInt8 | DynamicInt8]] = {
    "static-int8": ("8 bits, one scale for each tensor, ranges from calibration rows", StaticInt8(per_channel=False)),
    "static-int8-channel": ("the same with a scale for each channel of the weights", StaticInt8(per_channel=True)),
    "static-int8-percentile": (
        "the same, ranges cut at the 99.999th percentile",
        StaticInt8(per_channel=True, method="percentile"),
    ),
    _DYNAMIC: ("weights in 8 bits, activations scaled at each run; never batched", DynamicInt8()),
}


@dataclass(frozen=True, slots=True)
class Quantise:
    """One candidate for each way, if the model has anything to quantise."""

    original: Original
    name: str = "quantise"

    def settings(self) -> dict[str, Any]:
        """What is tried, with how many rows, and by what it is judged."""
        calibration = {"rows": _CALIBRATION_ROWS, "share": _CALIBRATION_SHARE}
        return {"ways": list(_WAYS), "calibration": calibration, **judging(self.original)}

    def run(self, found: Found, progress: Progress) -> dict[str, Any]:
        """Make each, and judge it."""
        run = self.original.run
        step = progress.begin("quantise", float(len(_WAYS)))
        used = operators_of(run.work.models / EXPORTED)
        if not any(op in used for op in _QUANTISABLE):
            why = f"nothing to quantise: its operators are {', '.join(used)}, and none multiplies a matrix of weights"
            step.end("nothing to quantise")
            return {"candidates": [], "does_nothing": why}
        calibration = run.rows.narrowed(found.of("export")["columns"]).some(calibration_places(run.rows))
        static: dict[str, Any] = {"calibration": calibration, "held_out": held_out_of(self.original)}
        made = []
        for done, (name, (how, way)) in enumerate(ways_on(runtime_fingerprint()).items()):
            step.update(float(done), name)
            one = attempt(self.original, found, name, how=how, way=way, **({} if name == _DYNAMIC else static))
            made.append(unbatched(one) if name == _DYNAMIC else one)
        step.end(f"{sum(one.accepted for one in made)} of {len(made)} pass the gate")
        return {"candidates": [one.model_dump() for one in made], "does_nothing": None}


def ways_on(machine: Mapping[str, Any]) -> dict[str, tuple[str, StaticInt8 | DynamicInt8]]:
    """What is tried on this machine.

    x86 without VNNI adds two products of 8 bits up in 16, where they saturate; with weights of 7 bits they cannot. A scale
    for each channel makes full use of the bits, so there one is left out; `static-int8` keeps all 8, and the gate judges it.
    """
    saturates = machine["arch"] == "x86_64" and _AT_ONCE.isdisjoint(machine["cpu_features"])
    return {name: _in_seven_bits(*way) if saturates else way for name, way in _WAYS.items()}


def _in_seven_bits(how: str, way: StaticInt8 | DynamicInt8) -> tuple[str, StaticInt8 | DynamicInt8]:
    if way.do != "static_int8" or not way.per_channel:
        return how, way
    return how + _SEVEN_BITS, way.model_copy(update={"reduce_range": True})


def unbatched(one: Candidate) -> Candidate:
    """Only a model that servers find out by themselves is sure to be served without batching, wherever it goes."""
    if one.failed is not None or not one.batching:
        return one
    why = "a row's answer depends on its neighbours, and the server's probe does not find it out: it would batch it"
    return one.model_copy(update={"barred": why})


def held_out_of(original: Original) -> list[int]:
    """The calibration rows, where enough others are left to judge by, of each class too; else none."""
    rows, labels = original.run.rows, original.labels
    places = calibration_places(rows)
    left = np.ones(rows.count, dtype=bool)
    left[places] = False
    enough = rows.count >= _CALIBRATION_SHARE * len(places) and (labels is None or labels[left].tell)
    return places if enough else []


def calibration_places(rows: Rows) -> list[int]:
    """Places all over the rows."""
    row_bytes = sum(array[:1].nbytes for array in rows.inputs.values())
    least, most = _CALIBRATION_ROWS
    most = min(most, rows.count // _CALIBRATION_SHARE, _CALIBRATION_BYTES // max(row_bytes, 1))
    wanted = min(rows.count, max(most, least))
    places: list[int] = np.unique(np.linspace(0, rows.count - 1, wanted).astype(np.intp)).tolist()
    return places
