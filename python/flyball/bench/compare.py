"""`flyball bench compare`: is B different from A? Live servers are measured in turn, A B B A …; or two records
are held together.

Must not decide what a difference is: `statistics.compare` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flyball.bench.statistics import Comparison, compare
from flyball.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from flyball.bench.measure import Measurement, Subject
    from flyball.bench.progress import Progress
    from flyball.bench.record import BenchRecord, Window
    from flyball.engine import LoadPlan


def measure_pairs(
    measurement: Measurement,
    sides: tuple[Subject, Subject],
    plan: LoadPlan,
    payloads: tuple[bytes, bytes],
    *,
    repeats: int,
    progress: Progress,
) -> Comparison:
    """Windows of both sides in turn, each pair in the other order than the last, so that drift falls on both alike."""
    step = progress.begin("A and B in turn", 2.0 * repeats)
    done = 0
    for repeat in range(repeats):
        for side in (0, 1) if repeat % 2 == 0 else (1, 0):
            subject = sides[side]
            step.update(done, f"pair {repeat + 1} of {repeats}: {subject.name}")
            here = plan.model_copy(update={"url": subject.url, "path": subject.path})
            measurement.window(subject, "compare", here, repeat=repeat, payloads=payloads[side])
            done += 1
    step.end(f"{repeats} pairs of {plan.duration_s:g} s")
    a, b = (measurement.record.windows_of(subject.name, "compare") for subject in sides)
    return compare(a, b, paired=True)


def compare_records(
    a: tuple[Path, BenchRecord], b: tuple[Path, BenchRecord], subject: str | None
) -> tuple[Comparison, list[str]]:
    """Two records held together, and what a reader must know of how they differ in other ways."""
    sides = [_comparable(path, record, subject) for path, record in (a, b)]
    first, second = (windows[0] for windows in sides)
    _same_load(first, second)
    caveats = ["measured at different times: what the machine did in between is not in the intervals"]
    for what, left, right in (
        ("machine", a[1].machine.cpu_model, b[1].machine.cpu_model),
        ("model", a[1].model.digest, b[1].model.digest),
        ("payloads", a[1].payloads.digest, b[1].payloads.digest),
        ("ONNX Runtime", a[1].software.ort_version, b[1].software.ort_version),
        ("flyball", a[1].software.commit, b[1].software.commit),
    ):
        if left != right:
            caveats.append(f"another {what}: {left} and {right}")
    return compare(sides[0], sides[1], paired=False), caveats


def _comparable(path: Path, record: BenchRecord, subject: str | None) -> list[Window]:
    names = [known.name for known in record.subjects]
    if subject is None and len(names) > 1:
        raise UsageError(f"{path} measured {', '.join(names)}", next_step=f"name one:  --subject {names[0]}")
    name = subject or names[0]
    for phase in ("steady", "compare", "gate"):
        windows = record.windows_of(name, phase)
        if windows:
            return windows
    raise UsageError(f"{path} has no repeated windows of {name!r}", next_step="measure some:  flyball bench --scenario NAME")


def _same_load(a: Window, b: Window) -> None:
    """Latency under one load says nothing of another."""
    for key in ("protocol", "connections", "streams", "arrivals", "duration_s"):
        left, right = getattr(a.plan, key), getattr(b.plan, key)
        if left != right:
            raise UsageError(
                f"the records were made under different loads: {key} is {left} and {right}",
                next_step="measure both with the same scenario",
            )
