"""What to try next, and why: one rule for each place where time is commonly lost, where it is a tenth of a run or more.

Knows operators by name and by how far they are from their floor; must not know how they were measured.
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
    """Something to try, and the finding that it follows from."""

    do: str
    why: str


@dataclass(frozen=True, slots=True)
class _Found:
    lines: Sequence[OperatorLine]
    between: float
    rows: int
    batching: Batching

    def share(self, ops: Collection[str]) -> float:
        return sum(line.share for line in self.lines if line.op in ops)


def advice_on(lines: Sequence[OperatorLine], between: float, *, rows: int, batching: Batching) -> list[Advice]:
    """Every rule that has something to say, the largest part of the time first; `between`: the share in no operator."""
    found = _Found(lines, between, rows, batching)
    told = [advised for rule in _RULES if (advised := rule(found)) is not None]
    told.sort(key=lambda one: -one[0])
    if not told:
        return [Advice("leave the model as it is", "no operator stands out, and none is far from what this machine allows")]
    return [advice for _, advice in told]


def _overhead(found: _Found) -> tuple[float, Advice] | None:
    """Operators that do next to nothing, and what lies between operators."""
    tiny = [line for line in found.lines if _is_tiny(line)]
    share = found.between + sum(line.share for line in tiny)
    if share < _MOST:
        return None
    if len(tiny) >= _MANY:
        do = f"fewer, larger operators: {_OPTIMIZE}, whose graph step fuses them and cuts outputs that nobody asks for"
        return share, Advice(do, f"{_percent(share)} of a run is going from one of {len(tiny)} tiny operators to the next")
    why = f"{_percent(share)} of a run is its fixed cost, and that of operators which do next to nothing"
    if found.batching.on:
        return share, Advice("more rows in a run: servers let requests share runs under load, by themselves", why)
    return share, Advice(f"several rows in one request; requests cannot share a run, because {found.batching.reason}", why)


def _dense(found: _Found) -> tuple[float, Advice] | None:
    """Products and convolutions of floats."""
    lines = [line for line in found.lines if line.op in PRODUCTS | CONVOLUTIONS and not _has_eight_bits(line)]
    lines = [line for line in lines if line.floor_us is not None and not _is_tiny(line)]
    share = sum(line.share for line in lines)
    if share < _MOST:
        return None
    floor = sum(line.floor_us or 0.0 for line in lines)
    times = max(1.0, sum(line.took_us for line in lines) / floor)
    why = f"{_named(lines)}: {_percent(share)} of a run, {times:.1f}× the floor"
    if times > _AT_THE_FLOOR and found.rows == 1:
        do = f"more rows in a run, or 8 bits: {_OPTIMIZE}; compare with  flyball explain-latency MODEL.onnx --rows 16"
        return share, Advice(do, f"{why}: one row leaves much of a core idle")
    if sum(line.floor_us or 0.0 for line in lines if line.floor_by == "bytes") >= floor / 2:
        do = f"fewer bytes: static 8-bit weights have a quarter ({_OPTIMIZE}), and the rows of one run share what is read"
        return share, Advice(do, f"{why}, which is reading the weights")
    do = f"static 8-bit integers, behind the accuracy gate: {_OPTIMIZE}; or a smaller model"
    return share, Advice(do, f"{why}, which is computing")


def _lost_in_eight_bits(found: _Found) -> tuple[float, Advice] | None:
    """8-bit products and convolutions whose shapes do not fill the instructions for them, such as few channels."""
    lines = [line for line in found.lines if line.op in PRODUCTS | CONVOLUTIONS and _has_eight_bits(line)]
    lines = [line for line in lines if line.share >= _WORTH_IT and (line.times_floor or 0.0) >= _LOST]
    share = sum(line.share for line in lines)
    if share < _MOST:
        return None
    nodes = ", ".join(f"{line.op} {line.node} {'→'.join(line.inputs[:1] + line.outputs[:1])}" for line in lines[:3])
    do = f"leave these in 32-bit floats when quantising, and compare: {nodes}"
    return share, Advice(
        do, f"{_percent(share)} of a run, {_LOST:g}× the floor of 8 bits or more: their shapes do not suit it"
    )


def _trees(found: _Found) -> tuple[float, Advice] | None:
    share = found.share(TREES)
    if share < _MOST:
        return None
    do = f"fewer or shallower trees; {_OPTIMIZE} names columns that no split asks for"
    why = f"trees: {_percent(share)} of a run, a walk from node to node that 8-bit weights do not shorten"
    return share, Advice(do, why)


def _conversions(found: _Found) -> tuple[float, Advice] | None:
    share = found.share(_CONVERSIONS)
    if share < _WORTH_IT:
        return None
    named = _named([line for line in found.lines if line.op in _CONVERSIONS])
    do = "export the model with inputs of the type and layout that it computes with, and without outputs that nobody reads"
    return share, Advice(do, f"{named}: {_percent(share)} of a run, and nothing is computed")


def _texts(found: _Found) -> tuple[float, Advice] | None:
    lines = [line for line in found.lines if any(shape.startswith("string") for shape in (*line.inputs, *line.outputs))]
    share = sum(line.share for line in lines)
    if share < _WORTH_IT:
        return None
    do = "let a decision's transforms turn texts into numbers: flyball convert, or  flyball fit"
    return share, Advice(do, f"{_named(lines)}: {_percent(share)} of a run on texts, which are copied one by one")


def _control(found: _Found) -> tuple[float, Advice] | None:
    """A loop, and what it runs again and again."""
    around = [line for line in found.lines if line.op in CONTROL]
    share = sum(line.share for line in found.lines if line.op in CONTROL or line.calls > 1)
    if not around or share < _MOST:
        return None
    turns = max(line.calls for line in found.lines)
    turned = f"{turns} turn{'s' * (turns != 1)}"
    do = "export the model without the loop: unrolled, or with one operator over all steps"
    return share, Advice(do, f"{_named(around)} and what runs in it: {_percent(share)} of a run, in {turned}")


def _scaled(found: _Found) -> tuple[float, Advice] | None:
    share = found.share(_SCALED_BY_THE_BATCH)
    if share < _WORTH_IT:
        return None
    do = f"static 8 bits, whose scales are found once, on calibration rows: {_OPTIMIZE}"
    return share, Advice(do, f"dynamic 8-bit operators: {_percent(share)} of a run; they scale anew in each")


_RULES: tuple[Callable[[_Found], tuple[float, Advice] | None], ...] = (
    _overhead, _dense, _lost_in_eight_bits, _trees, _conversions, _texts, _control, _scaled,
)  # fmt: skip


def _has_eight_bits(line: OperatorLine) -> bool:
    return any(shape.startswith(("int8[", "uint8[")) for shape in line.inputs)


def _is_tiny(line: OperatorLine) -> bool:
    """Far above its floor, and still over at once: calling it is what takes the time."""
    if line.floor_us is None or line.took_us > _TINY_US * line.calls:
        return False
    return max(line.took_us, RESOLUTION_US * line.calls) >= _TINY_TIMES * line.floor_us


def _named(lines: Sequence[OperatorLine]) -> str:
    """The operators by name and how many there are: "4 FusedGemm and 1 Conv"."""
    counts = Counter(line.op for line in lines)
    return " and ".join(f"{count} {op}" for op, count in counts.most_common(3))


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")
