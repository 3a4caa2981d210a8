"""Step 7: quantises to 8 bits in several variants, each behind the accuracy gate.

Ranges come from some of the given rows, and the candidate is evaluated on the others: its own calibration rows would
flatter it. Dynamic quantisation scales over all rows of a run, so a row's answer depends on its neighbours: such a
candidate is served without batching or not at all. Tree ensembles only compare, and cannot be quantised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.models.optimize.operators import operators_of
from flyball.models.optimize.rewrite import DynamicInt8, StaticInt8
from flyball.models.optimize.steps.export import EXPORTED
from flyball.models.optimize.steps.graph import attempt, criteria
from flyball.native.journal import runtime_fingerprint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flyball.bench.progress import Progress
    from flyball.models.optimize.candidate import Candidate
    from flyball.models.optimize.original import Original
    from flyball.models.optimize.pipeline import StepResults
    from flyball.models.optimize.rows import Rows

_QUANTISABLE = ("Conv", "ConvTranspose", "Gemm", "LSTM", "MatMul", "Attention", "EmbedLayerNormalization", "Gather")
_CALIBRATION_ROWS = (32, 512)
_CALIBRATION_SHARE = 4  # one row in 4; below 4 × 32 rows nothing can be held out
_CALIBRATION_BYTES = 16 << 20  # fewer rows for images: the quantiser keeps every layer's result
_DYNAMIC = "dynamic-int8"
_AT_ONCE = frozenset({"avxvnni", "avx512vnni", "amx_int8"})  # these sum four products in 32 bits
_SEVEN_BITS = "; weights in 7 bits, because this CPU's 8-bit products saturate"
_VARIANTS: dict[str, tuple[str, StaticInt8 | DynamicInt8]] = {
    "static-int8": ("8 bits, one scale per tensor, ranges from calibration rows", StaticInt8(per_channel=False)),
    "static-int8-channel": ("the same with one scale per weight channel", StaticInt8(per_channel=True)),
    "static-int8-percentile": (
        "the same, ranges clipped at the 99.999th percentile",
        StaticInt8(per_channel=True, method="percentile"),
    ),
    _DYNAMIC: ("weights in 8 bits, activations scaled in each run; never batched", DynamicInt8()),
}


def quantise_settings(original: Original) -> dict[str, Any]:
    """The variants, the number of rows, and the criteria."""
    calibration = {"rows": _CALIBRATION_ROWS, "share": _CALIBRATION_SHARE}
    return {"variants": list(_VARIANTS), "calibration": calibration, **criteria(original)}


def quantise(original: Original, results: StepResults, progress: Progress) -> dict[str, Any]:
    """Make and evaluate one candidate per quantisation variant, if the model can be quantised."""
    run = original.run
    step = progress.begin("quantise", float(len(_VARIANTS)))
    used = operators_of(run.work.models / EXPORTED)
    if not any(op in used for op in _QUANTISABLE):
        why = f"nothing to quantise: none of its operators ({', '.join(used)}) multiplies a weight matrix"
        step.end("nothing to quantise")
        return {"candidates": [], "does_nothing": why}
    calibration = run.rows.narrowed(results.of("export")["columns"]).some(calibration_indices(run.rows))
    static: dict[str, Any] = {"calibration": calibration, "held_out": held_out_of(original)}
    made = []
    for done, (name, (how, request)) in enumerate(variants_on(runtime_fingerprint()).items()):
        step.update(float(done), name)
        one = attempt(original, results, name, how=how, request=request, **({} if name == _DYNAMIC else static))
        made.append(unbatched(one) if name == _DYNAMIC else one)
    step.end(f"{sum(one.accepted for one in made)} of {len(made)} accepted")
    return {"candidates": [one.model_dump() for one in made], "does_nothing": None}


def variants_on(machine: Mapping[str, Any]) -> dict[str, tuple[str, StaticInt8 | DynamicInt8]]:
    """The variants for this machine.

    x86 without VNNI sums two 8-bit products in 16 bits, where they saturate; 7-bit weights avoid that. Per-channel scales
    use the bits fully, so there one bit is dropped; `static-int8` keeps all 8, and the gate evaluates it.
    """
    saturates = machine["arch"] == "x86_64" and _AT_ONCE.isdisjoint(machine["cpu_features"])
    return {name: _in_seven_bits(*request) if saturates else request for name, request in _VARIANTS.items()}


def _in_seven_bits(how: str, request: StaticInt8 | DynamicInt8) -> tuple[str, StaticInt8 | DynamicInt8]:
    if request.do != "static_int8" or not request.per_channel:
        return how, request
    return how + _SEVEN_BITS, request.model_copy(update={"reduce_range": True})


def unbatched(one: Candidate) -> Candidate:
    """Refuse a candidate whose dependence on neighbours the server's probe would not detect."""
    if one.failed is not None or not one.batching:
        return one
    why = "a row's answer depends on its neighbours, and the server's probe does not detect it: it would be batched"
    return one.model_copy(update={"barred": why})


def held_out_of(original: Original) -> list[int]:
    """The calibration rows, if enough other rows of each class remain to evaluate; else none."""
    rows, labels = original.run.rows, original.labels
    indices = calibration_indices(rows)
    left = np.ones(rows.count, dtype=bool)
    left[indices] = False
    enough = rows.count >= _CALIBRATION_SHARE * len(indices) and (labels is None or labels[left].enough)
    return indices if enough else []


def calibration_indices(rows: Rows) -> list[int]:
    """Indices of the calibration rows, evenly spread."""
    row_bytes = sum(array[:1].nbytes for array in rows.inputs.values())
    least, most = _CALIBRATION_ROWS
    most = min(most, rows.count // _CALIBRATION_SHARE, _CALIBRATION_BYTES // max(row_bytes, 1))
    wanted = min(rows.count, max(most, least))
    indices: list[int] = np.unique(np.linspace(0, rows.count - 1, wanted).astype(np.intp)).tolist()
    return indices
