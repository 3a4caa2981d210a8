"""ONNX Runtime's profile, read: what each operator took in each run, and the shapes of what it took and gave.

Times are in whole µs, as ONNX Runtime counts them. An operator that runs others, such as a loop, is told without these, so
that the operators of a run never add up to more than the run. Must not know what an operator computes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flyball.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BYTES_MAX = 256 * 1024 * 1024
_KERNEL = "_kernel_time"
_RUN = "SequentialExecutor::Execute"


@dataclass(frozen=True, slots=True)
class Shaped:
    """A tensor's element type, as ONNX Runtime names it, and its shape."""

    kind: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """How many it has."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    def __str__(self) -> str:
        return f"{self.kind}[{'×'.join(str(size) for size in self.shape)}]"


@dataclass(frozen=True, slots=True)
class Call:
    """One run of one operator; `took_us` is its own, without what it ran itself."""

    node: str
    op: str
    took_us: int
    inputs: tuple[Shaped, ...]
    outputs: tuple[Shaped, ...]
    input_bytes: int
    """Of what other operators, or the caller, gave it."""
    weight_bytes: int
    """Of what the model brings along. Weights that were laid out anew are not told."""
    output_bytes: int


@dataclass(frozen=True, slots=True)
class ProfiledRun:
    """One run of the model, and the operators in it in the order of their beginnings."""

    took_us: int
    """From the first operator's beginning to the last one's end, and what lies between them."""
    calls: list[Call]


@dataclass(slots=True)
class _Event:
    begin: int
    end: int
    inside: int
    event: dict[str, Any]


def read_profile(path: Path) -> list[ProfiledRun]:
    """Every run in a profile, the oldest first."""
    if path.stat().st_size > BYTES_MAX:
        raise RefusedError(
            f"the profile has more than {BYTES_MAX >> 20} MiB: a run calls too many operators to tell them all",
            next_step="give it rows on which its loops turn less often:  --data ROWS",
        )
    try:
        events = json.loads(path.read_bytes())
        runs = [event for event in events if event["cat"] == "Session" and event["name"] == _RUN]
        nodes = [event for event in events if event["cat"] == "Node" and event["name"].endswith(_KERNEL)]
        found = list(_runs(_outermost(runs), sorted(map(_event, nodes), key=_order)))
        if not found:
            raise ValueError("no run is in it")
        return found
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RefusedError(f"{path} is no profile of ONNX Runtime: {type(error).__name__}: {error}") from error


def _event(event: dict[str, Any]) -> _Event:
    begin = int(event["ts"])
    return _Event(begin, begin + int(event["dur"]), 0, event)


def _order(event: _Event) -> tuple[int, int]:
    """The outer before the inner."""
    return event.begin, -event.end


def _outermost(events: list[dict[str, Any]]) -> list[_Event]:
    """A loop's body is executed the same way inside a run."""
    kept: list[_Event] = []
    for event in sorted(map(_event, events), key=_order):
        if not kept or event.begin >= kept[-1].end:
            kept.append(event)
    return kept


def _runs(runs: list[_Event], nodes: list[_Event]) -> Iterator[ProfiledRun]:
    place = 0
    for run in runs:
        while place < len(nodes) and nodes[place].begin < run.begin:
            place += 1
        first = place
        # Times are cut to whole µs, so that an operator may begin in the µs in which its run ends.
        while place < len(nodes) and nodes[place].begin <= run.end:
            place += 1
        inside = nodes[first:place]
        _take_out_what_they_run(inside)
        yield ProfiledRun(run.end - run.begin, [_call(event) for event in inside])


def _take_out_what_they_run(events: list[_Event]) -> None:
    """Where one lies in another, its time is its own. Times are cut, not rounded: of two in a row neither overlaps."""
    around: list[_Event] = []
    for event in events:
        while around and event.begin >= around[-1].end:
            around.pop()
        if around:
            around[-1].inside += event.end - event.begin
        around.append(event)


def _call(event: _Event) -> Call:
    told = event.event["args"]
    return Call(
        node=event.event["name"].removesuffix(_KERNEL).strip(),
        op=told["op_name"],
        took_us=max(0, event.end - event.begin - event.inside),
        inputs=_shapes(told["input_type_shape"]),
        outputs=_shapes(told["output_type_shape"]),
        input_bytes=int(told["activation_size"]),
        weight_bytes=int(told["parameter_size"]),
        output_bytes=int(told["output_size"]),
    )


def _shapes(told: list[dict[str, list[int]]]) -> tuple[Shaped, ...]:
    return tuple(Shaped(kind, tuple(shape)) for one in told for kind, shape in one.items())
