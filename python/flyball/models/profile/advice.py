"""Advice on a model's latency: one rule per common cost, applied from a tenth of a run.

Knows operators by name and by their distance from the floor; must not know how they were measured.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flyball.models.profile.cost import CONTROL, CONVOLUTIONS, PRODUCTS, TREES
from flyball.models.profile.profiler_overhead import RESOLUTION_US

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from flyball.models.profile.explanation import OperatorLine
    from flyball.native.model_documents import Batching

_WORTH_IT = 0.10
_MOST = 0.30
_AT_THE_FLOOR, _LOST = 2.0, 4.0
_TINY_US, _TINY_TIMES = 3.0, 5.0
_MANY = 6
_CONVERSIONS = frozenset({"Cast", "ReorderInput", "ReorderOutput", "Transpose"})
_SCALED_BY_THE_BATCH = frozenset({"DynamicQuantizeLinear", "DynamicQuantizeLSTM", "DynamicQuantizeMatMul"})
_OPTIMIZE = "flyball optimize MODEL.onnx --data ROWS"


@dataclass(frozen=True, slots=True)
class Advice:
    """A suggestion and the finding behind it."""

    do: str
    why: str


@dataclass(frozen=True, slots=True)
class _Profile:
    lines: Sequence[OperatorLine]
    between: float
    rows: int
    batching: Batching

    def share(self, ops: Collection[str]) -> float:
        return sum(line.share for line in self.lines if line.op in ops)


def advice_on(lines: Sequence[OperatorLine], between: float, *, rows: int, batching: Batching) -> list[Advice]:
    """All advice, the largest share of time first; `between`: the share in no operator."""
    found = _Profile(lines, between, rows, batching)
    ranked = [(share, advice) for rule, least in _RULES for share, advice in [rule(found)] if share >= least]
    ranked.sort(key=lambda one: -one[0])
    nothing = Advice("leave the model as it is", "no operator stands out, and all are close to this machine's floor")
    return [advice for _, advice in ranked] or [nothing]


def _overhead(found: _Profile) -> tuple[float, Advice]:
    """Tiny operators, and the time between operators."""
    tiny = [line for line in found.lines if _is_tiny(line)]
    share = found.between + sum(line.share for line in tiny)
    if len(tiny) >= _MANY:
        do = f"fewer, larger operators: {_OPTIMIZE}, whose graph step fuses them and removes unused outputs"
        return share, Advice(do, f"{_percent(share)} of a run is overhead between {len(tiny)} tiny operators")
    why = f"{_percent(share)} of a run is fixed cost and tiny operators"
    if found.batching.on:
        return share, Advice("more rows per run: under load servers batch requests automatically", why)
    return share, Advice(f"several rows per request; requests cannot be batched, because {found.batching.reason}", why)


def _dense(found: _Profile) -> tuple[float, Advice]:
    """Float matrix products and convolutions."""
    lines = [line for line in found.lines if line.op in PRODUCTS | CONVOLUTIONS and not _has_eight_bits(line)]
    lines = [line for line in lines if line.floor_us is not None and not _is_tiny(line)]
    share = sum(line.share for line in lines)
    floor = sum(line.floor_us or 0.0 for line in lines)
    times = max(1.0, sum(line.took_us for line in lines) / floor) if floor else 1.0
    why = f"{_named(lines)}: {_percent(share)} of a run, {times:.1f}× the floor"
    if times > _AT_THE_FLOOR and found.rows == 1:
        do = f"more rows per run, or 8 bits: {_OPTIMIZE}; compare with  flyball explain-latency MODEL.onnx --batch-rows 16"
        return share, Advice(do, f"{why}: one row leaves much of a core idle")
    if sum(line.floor_us or 0.0 for line in lines if line.floor_by == "bytes") >= floor / 2:
        do = f"fewer bytes: static 8-bit weights need a quarter ({_OPTIMIZE}), and a run's rows share the reads"
        return share, Advice(do, f"{why}, spent on reading weights")
    do = f"static 8-bit integers, behind the accuracy gate: {_OPTIMIZE}; or a smaller model"
    return share, Advice(do, f"{why}, spent on computing")


def _lost_in_eight_bits(found: _Profile) -> tuple[float, Advice]:
    """8-bit products and convolutions whose shapes do not fill the 8-bit instructions, such as few channels."""
    lines = [line for line in found.lines if line.op in PRODUCTS | CONVOLUTIONS and _has_eight_bits(line)]
    lines = [line for line in lines if line.share >= _WORTH_IT and (line.times_floor or 0.0) >= _LOST]
    share = sum(line.share for line in lines)
    nodes = ", ".join(f"{line.op} {line.node} {'→'.join(line.inputs[:1] + line.outputs[:1])}" for line in lines[:3])
    do = f"keep these in 32-bit floats when quantising, and compare: {nodes}"
    return share, Advice(
        do, f"{_percent(share)} of a run, {_LOST:g}× the 8-bit floor or more: their shapes do not fill the instructions"
    )


def _trees(found: _Profile) -> tuple[float, Advice]:
    share = found.share(TREES)
    do = f"fewer or shallower trees; {_OPTIMIZE} names columns that no split uses"
    why = f"trees: {_percent(share)} of a run, walked node by node, which 8-bit weights do not shorten"
    return share, Advice(do, why)


def _conversions(found: _Profile) -> tuple[float, Advice]:
    share = found.share(_CONVERSIONS)
    named = _named([line for line in found.lines if line.op in _CONVERSIONS])
    do = "export the model with inputs of the type and layout that it computes with, and without unused outputs"
    return share, Advice(do, f"{named}: {_percent(share)} of a run without computing anything")


def _texts(found: _Profile) -> tuple[float, Advice]:
    lines = [line for line in found.lines if any(shape.startswith("string") for shape in (*line.inputs, *line.outputs))]
    share = sum(line.share for line in lines)
    do = "let a decision's transforms turn text into numbers: flyball convert, or  flyball fit"
    return share, Advice(do, f"{_named(lines)}: {_percent(share)} of a run on texts, which are copied one by one")


def _control(found: _Profile) -> tuple[float, Advice]:
    """A loop and the operators in its body."""
    around = [line for line in found.lines if line.op in CONTROL]
    share = sum(line.share for line in found.lines if line.op in CONTROL or line.calls > 1)
    turns = max((line.calls for line in found.lines), default=0)
    turned = f"{turns} iteration{'s' * (turns != 1)}"
    do = "export the model without the loop: unrolled, or with one operator over all steps"
    why = f"{_named(around)} and its body: {_percent(share)} of a run, in {turned}"
    return share if around else 0.0, Advice(do, why)


def _scaled(found: _Profile) -> tuple[float, Advice]:
    share = found.share(_SCALED_BY_THE_BATCH)
    do = f"static 8 bits, with scales computed once from calibration rows: {_OPTIMIZE}"
    return share, Advice(do, f"dynamic 8-bit operators: {_percent(share)} of a run; they compute scales in each run")


# Each rule, and the share of a run from which its advice is given.
_RULES: tuple[tuple[Callable[[_Profile], tuple[float, Advice]], float], ...] = (
    *((rule, _MOST) for rule in (_overhead, _dense, _lost_in_eight_bits, _trees, _control)),
    *((rule, _WORTH_IT) for rule in (_conversions, _texts, _scaled)),
)


def _has_eight_bits(line: OperatorLine) -> bool:
    return any(shape.startswith(("int8[", "uint8[")) for shape in line.inputs)


def _is_tiny(line: OperatorLine) -> bool:
    """Far above its floor and still very short: the call itself takes the time."""
    if line.floor_us is None or line.took_us > _TINY_US * line.calls:
        return False
    return max(line.took_us, RESOLUTION_US * line.calls) >= _TINY_TIMES * line.floor_us


def _named(lines: Sequence[OperatorLine]) -> str:
    """Operators with their counts: "4 FusedGemm and 1 Conv"."""
    counts = Counter(line.op for line in lines)
    return " and ".join(f"{count} {op}" for op, count in counts.most_common(3))


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")
