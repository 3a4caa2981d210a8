"""Explains a model's run time with three sessions of the serving engine.

One measures undisturbed runs; one is profiled; and one is profiled with unpacked weights, because prepacking hides weight
shapes in the second. Must not know how it is shown.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from flyball.bench.row_tensors import rows_from_file
from flyball.client.metadata import TensorMetadata
from flyball.models.profile.advice import Advice, advice_on
from flyball.models.profile.cost import Machine, moved_bytes, operations_of
from flyball.models.profile.profile import Call, ProfiledRun, read_profile
from flyball.models.profile.profiler_overhead import RESOLUTION_US, call_cost_us, typical
from flyball.native.model_runs import Model, ceiling

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from flyball.native.model_documents import Ceiling, RunFigures
    from flyball.rows.tensors import Array

    _Key = tuple[str, str]  # a node's name and its operator

_TURNS_MIN, _TURNS = 3, 10
_TURN_US = 70_000
_RUNS_MAX = 2000
_EVENTS_MAX = 50_000  # a thousand events need a megabyte of JSON


@dataclass(frozen=True, slots=True)
class OperatorLine:
    """One operator in a run: its time, its work, and the minimum time for it."""

    node: str
    op: str
    calls: int
    took_us: float
    """Mean of the middle half of the runs, without the profiler's overhead."""
    share: float
    """Share of the whole run."""
    inputs: list[str]
    outputs: list[str]
    moved_bytes: int | None
    operations: int | None
    floor_us: float | None
    floor_by: Literal["bytes", "operations"] | None
    times_floor: float | None
    """None without a floor, and for times too short to measure."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where the time of a run goes: operators and the rest add up to `p50_us`, a run without the profiler."""

    digest: str
    ort_version: str
    rows: int
    runs: int
    p50_us: float
    p99_us: float
    profiled_us: float
    """The same with the profiler on."""
    call_cost_us: float
    """The profiler's overhead per operator call, already subtracted."""
    operators_us: float
    between_us: float
    """Time in no operator: binding inputs and outputs, memory, dispatch. 0 if the profiler disturbs a model so much that its
    operators seem to take longer than the run."""
    weight_bytes: int
    floor_us: float
    """Sum over all operators that have a floor."""
    ceiling: Ceiling
    lines: list[OperatorLine]
    """Slowest first."""
    advice: list[Advice]

    def document(self) -> dict[str, Any]:
        """The JSON document."""
        return {**asdict(self), "ceiling": self.ceiling.model_dump()}


def explain(path: Path, *, rows: int = 1, data: Path | None = None) -> Explanation:
    """Run a model on rows of a file or generated ones, and explain its time."""
    alone = Model(path)
    given = alone.made_up(rows) if data is None else _picked(data, alone, rows)
    with TemporaryDirectory(prefix="flyball-profile-") as folder:
        shaped = Model(path, profile=Path(folder, "shapes"), weights_as_given=True)
        shaped.run(given)
        (shapes,) = read_profile(shaped.end_profile())
        timed = Model(path, profile=Path(folder, "times"))
        figures = _in_turns(alone, timed, given, len(shapes.calls))
        profiled = read_profile(timed.end_profile())
    p50_us = median(one.p50_us for one in figures)
    cost_us, measured = call_cost_us(), ceiling()
    weight_bytes = sum(call.weight_bytes for call in shapes.calls)
    lines = _lines(shapes, _times(profiled, cost_us), p50_us, Machine(measured, weight_bytes))
    operators_us = sum(line.took_us for line in lines)
    between_us = max(0.0, p50_us - operators_us)
    return Explanation(
        digest=alone.facts.digest,
        ort_version=alone.facts.ort_version,
        rows=figures[0].rows,
        runs=sum(one.runs for one in figures),
        p50_us=p50_us,
        p99_us=median(one.p99_us for one in figures),
        profiled_us=typical([run.took_us for run in profiled]),
        call_cost_us=cost_us,
        operators_us=operators_us,
        between_us=between_us,
        weight_bytes=weight_bytes,
        floor_us=sum(line.floor_us or 0.0 for line in lines),
        ceiling=measured,
        lines=lines,
        advice=advice_on(lines, between_us / p50_us, rows=figures[0].rows, batching=alone.facts.batching),
    )


def _in_turns(alone: Model, timed: Model, given: Mapping[str, Array], calls: int) -> list[RunFigures]:
    """Alternate between both sessions, so that noise hits them alike; the figures are the first one's."""
    rough_us = max(alone.measure(given, runs=3, warm_runs=1).p50_us, 1.0)
    turns = min(max(int(_TURNS * _TURN_US / rough_us), _TURNS_MIN), _TURNS)
    runs = min(max(int(_TURN_US / rough_us), 1), _RUNS_MAX // turns)
    profiled_runs = min(runs, max(_EVENTS_MAX // turns // max(calls, 1), 1))
    figures = []
    for _ in range(turns):
        figures.append(alone.measure(given, runs=runs, warm_runs=1))
        timed.measure(given, runs=profiled_runs, warm_runs=1)
    return figures


def _picked(data: Path, model: Model, rows: int) -> dict[str, Array]:
    inputs = [TensorMetadata(one.name, one.datatype, tuple(one.shape)) for one in model.facts.inputs]
    picked = rows_from_file(data, inputs, rows, seed=0)
    return {one.name: np.concatenate([row[one.name] for row in picked]) for one in inputs}


def _times(runs: Sequence[ProfiledRun], cost_us: float) -> dict[_Key, float]:
    """Each operator's time in a run, without the profiler's overhead."""
    times_of: dict[_Key, list[float]] = {}
    for index, run in enumerate(runs):
        for call in run.calls:
            times = times_of.setdefault((call.node, call.op), [0.0] * len(runs))
            times[index] += call.took_us - cost_us
    return {key: max(0.0, typical(times)) for key, times in times_of.items()}


def _lines(shapes: ProfiledRun, times: Mapping[_Key, float], p50_us: float, machine: Machine) -> list[OperatorLine]:
    whole_us = max(p50_us, sum(times.values()))
    calls: dict[_Key, list[Call]] = {}
    for call in shapes.calls:
        calls.setdefault((call.node, call.op), []).append(call)
    lines = [_line(key, times.get(key, 0.0), whole_us, calls[key], machine) for key in calls]
    return sorted(lines, key=lambda line: -line.took_us)


def _line(key: _Key, took_us: float, whole_us: float, calls: Sequence[Call], machine: Machine) -> OperatorLine:
    known = [floor for call in calls if (floor := machine.floor(call)) is not None]
    floor_us = sum(floor.us for floor in known) if len(known) == len(calls) else None
    return OperatorLine(
        node=key[0],
        op=key[1],
        calls=len(calls),
        took_us=took_us,
        share=took_us / whole_us,
        inputs=[str(tensor) for tensor in calls[0].inputs],
        outputs=[str(tensor) for tensor in calls[0].outputs],
        moved_bytes=_whole(moved_bytes(call) for call in calls),
        operations=_whole(operations_of(call) for call in calls),
        floor_us=floor_us,
        floor_by=known[0].by if floor_us is not None else None,
        times_floor=max(1.0, took_us / floor_us) if floor_us and took_us >= RESOLUTION_US * len(calls) else None,
    )


def _whole(parts: Iterable[int | None]) -> int | None:
    """Their sum; None if one is unknown."""
    found = list(parts)
    known = [part for part in found if part is not None]
    return sum(known) if len(known) == len(found) else None
