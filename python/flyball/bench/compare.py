"""`flyball bench compare`: compares two live servers, measured in turn (A B B A …), or two records.

Must not decide what a difference is: `statistics.compare` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flyball.bench.statistics import Comparison, compare
from flyball.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from flyball.bench.measure import Measurement, Subject
    from flyball.bench.progress import Progress
    from flyball.bench.record import BenchRecord, Phase, Window
    from flyball.native.load_documents import Arrivals, LoadPlan

_REPEATED: tuple[Phase, ...] = ("steady", "compare", "gate")
# Source and destination of the load, its resolution, and the model's name there.
_NOT_LOAD: dict[str, Any] = {"url": True, "model": True, "cpus": True, "path": True, "interval_s": True}


def measure_pairs(
    measurement: Measurement,
    sides: tuple[Subject, Subject],
    plan: LoadPlan,
    *,
    repeats: int,
    progress: Progress,
) -> Comparison:
    """Measure both sides in turn, each pair in the opposite order of the last, so that drift affects both alike."""
    step = progress.begin("A and B in turn", 2.0 * repeats)
    done = 0
    for repeat in range(repeats):
        for side in (0, 1) if repeat % 2 == 0 else (1, 0):
            subject = sides[side]
            step.update(done, f"pair {repeat + 1} of {repeats}: {subject.name}")
            here = plan.model_copy(
                update={"url": subject.url, "path": subject.path, "arrivals": _drawn(plan.arrivals, repeat)}
            )
            measurement.window(subject, "compare", here, repeat=repeat)
            done += 1
    step.end(f"{repeats} pairs of {plan.duration_s:g} s")
    a, b = (measurement.record.windows_of(subject.name, "compare") for subject in sides)
    return compare(a, b, paired=True)


def _drawn(arrivals: Arrivals, repeat: int) -> Arrivals:
    """New arrivals for each pair, and the same for both of its sides."""
    return arrivals if arrivals.seed is None else arrivals.model_copy(update={"seed": arrivals.seed + repeat})


def compare_records(
    a: tuple[Path, BenchRecord], b: tuple[Path, BenchRecord], subject: str | None
) -> tuple[Comparison, list[str]]:
    """Compare two records, with caveats about other differences between them."""
    sides = [_comparable(path, record, subject) for path, record in (a, b)]
    whole = [[window for window in windows if not window.result.ended_early] for windows in sides]
    caveats = ["measured at different times: the intervals do not cover changes of the machine in between"]
    for (path, record), windows, kept in zip((a, b), sides, whole, strict=True):
        if record.status == "partial":
            caveats.append(f"{path} is partial: {record.partial_reason or 'the run did not finish'}")
        if len(kept) < len(windows):
            caveats.append(f"{path}: skipped {len(windows) - len(kept)} of {len(windows)} windows, which ended early")
    _refuse_other_load(sides[0][0].plan, sides[1][0].plan)
    left, right = (_surroundings(record, windows[0]) for (_, record), windows in zip((a, b), sides, strict=True))
    caveats += [
        f"different {what}: {_shown(left[what])} and {_shown(right[what])}" for what in left if left[what] != right[what]
    ]
    return compare(whole[0], whole[1], paired=False), caveats


def _comparable(path: Path, record: BenchRecord, subject: str | None) -> list[Window]:
    names = [known.name for known in record.subjects]
    if subject is None and len(names) > 1:
        raise UsageError(f"{path} measured {', '.join(names)}", next_step=f"name one:  --server {names[0]}")
    name = subject or "".join(names)
    for phase in _REPEATED:
        windows = record.windows_of(name, phase)
        if windows:
            return windows
    raise UsageError(f"{path} has no repeated windows of {name!r}", next_step="measure some:  flyball bench --scenario NAME")


def _refuse_other_load(a: LoadPlan, b: LoadPlan) -> None:
    """Latencies under different loads cannot be compared."""
    left, right = _load_of(a), _load_of(b)
    differ = [key for key in {**left, **right} if left.get(key) != right.get(key)]
    if differ:
        shown = ", ".join(f"{key} is {_shown(left.get(key))} and {_shown(right.get(key))}" for key in differ)
        raise UsageError(
            f"the records were measured under different loads: {shown}",
            next_step="measure both with the same scenario",
        )


def _load_of(plan: LoadPlan) -> dict[str, object]:
    """All parts of a plan that affect the server, by key. Another seed is the same load."""
    document = plan.model_dump(exclude=_NOT_LOAD | {"arrivals": {"seed"}})
    load: dict[str, object] = {}
    for key, value in document.items():
        load |= {f"{key}.{inner}": each for inner, each in value.items()} if isinstance(value, dict) else {key: value}
    return load


def _surroundings(record: BenchRecord, window: Window) -> dict[str, object]:
    """Properties that may differ between comparable records, but must be reported."""
    machine, software = record.machine, record.software
    return {
        "machine": machine.cpu_model,
        "number of server cores": None if machine.server_cpus is None else len(machine.server_cpus),
        "frequency governor": machine.governor,
        "cgroup quota": machine.cgroup_cpu_quota,
        "kernel": machine.kernel,
        "model": record.model.digest,
        "model name": window.plan.model,
        "set of payloads": record.payloads.digest,
        "ONNX Runtime": software.ort_version,
        "flyball": software.commit,
    }


def _shown(value: object) -> object:
    return "none" if value is None else value
