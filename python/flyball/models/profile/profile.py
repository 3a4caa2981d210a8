"""Reads ONNX Runtime's profile: each operator's time in each run, and its tensor shapes.

Times are whole µs, as ONNX Runtime counts them. The time of an operator that runs others, such as a loop, excludes theirs,
so that a run's operators never add up to more than the run. Must not know what an operator computes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flyball.errors import RefusedError

BYTES_MAX = 256 * 1024 * 1024
_KERNEL = "_kernel_time"
_RUN = "SequentialExecutor::Execute"


@dataclass(frozen=True, slots=True)
class Shaped:
    """A tensor's element type, in ONNX Runtime's name, and its shape."""

    kind: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def __str__(self) -> str:
        return f"{self.kind}[{'×'.join(str(size) for size in self.shape)}]"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an operator; `took_us` excludes the operators it called."""

    node: str
    op: str
    took_us: int
    inputs: tuple[Shaped, ...]
    outputs: tuple[Shaped, ...]
    input_bytes: int
    """Inputs from other operators or the caller."""
    weight_bytes: int
    """The model's weights. Prepacked weights are not reported."""
    output_bytes: int


@dataclass(frozen=True, slots=True)
class ProfiledRun:
    """One run of the model, with its operators in order of their start."""

    took_us: int
    """From the first operator's start to the last one's end, gaps included."""
    calls: list[Call]


@dataclass(slots=True)
class _Event:
    begin: int
    end: int
    inside: int
    event: dict[str, Any]


def read_profile(path: Path) -> list[ProfiledRun]:
    """All runs in a profile, oldest first."""
    if path.stat().st_size > BYTES_MAX:
        raise RefusedError(
            f"the profile exceeds {BYTES_MAX >> 20} MiB: a run calls too many operators",
            next_step="use rows on which its loops iterate less often:  --data ROWS",
        )
    try:
        events = json.loads(path.read_bytes())
        runs = [event for event in events if event["cat"] == "Session" and event["name"] == _RUN]
        nodes = [event for event in events if event["cat"] == "Node" and event["name"].endswith(_KERNEL)]
        found = list(_runs(_outermost(runs), sorted(map(_event, nodes), key=_order)))
        if not found:
            raise ValueError("it contains no run")
        return found
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RefusedError(f"{path} is not an ONNX Runtime profile: {type(error).__name__}: {error}") from error


def _event(event: dict[str, Any]) -> _Event:
    begin = int(event["ts"])
    return _Event(begin, begin + int(event["dur"]), 0, event)


def _order(event: _Event) -> tuple[int, int]:
    """Outer events before inner ones."""
    return event.begin, -event.end


def _outermost(events: list[dict[str, Any]]) -> list[_Event]:
    """A loop's body has the same events inside a run."""
    kept: list[_Event] = []
    for event in sorted(map(_event, events), key=_order):
        if not kept or event.begin >= kept[-1].end:
            kept.append(event)
    return kept


def _runs(runs: list[_Event], nodes: list[_Event]) -> Iterator[ProfiledRun]:
    index = 0
    for run in runs:
        while index < len(nodes) and nodes[index].begin < run.begin:
            index += 1
        first = index
        # Times are truncated to whole µs, so an operator may start in the µs in which its run ends.
        while index < len(nodes) and nodes[index].begin <= run.end:
            index += 1
        inside = nodes[first:index]
        _take_out_what_they_run(inside)
        yield ProfiledRun(run.end - run.begin, [_call(event) for event in inside])


def _take_out_what_they_run(events: list[_Event]) -> None:
    """Subtract nested calls from the outer one. Times are truncated, not rounded: consecutive calls never overlap."""
    around: list[_Event] = []
    for event in events:
        while around and event.begin >= around[-1].end:
            around.pop()
        if around:
            around[-1].inside += event.end - event.begin
        around.append(event)


def _call(event: _Event) -> Call:
    args = event.event["args"]
    return Call(
        node=event.event["name"].removesuffix(_KERNEL).strip(),
        op=args["op_name"],
        took_us=max(0, event.end - event.begin - event.inside),
        inputs=_shapes(args["input_type_shape"]),
        outputs=_shapes(args["output_type_shape"]),
        input_bytes=int(args["activation_size"]),
        weight_bytes=int(args["parameter_size"]),
        output_bytes=int(args["output_size"]),
    )


def _shapes(args: list[dict[str, list[int]]]) -> tuple[Shaped, ...]:
    return tuple(Shaped(kind, tuple(shape)) for one in args for kind, shape in one.items())
