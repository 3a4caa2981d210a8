"""Progress of long commands: bars on a terminal, elsewhere one line per finished step."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import rich.progress
    from rich.console import Console

    from flyball.bench.progress import Progress, Step


@contextmanager
def progress_on(out: Console) -> Iterator[Progress]:
    """Show progress on `out`: bars on a terminal, plain lines elsewhere."""
    if not out.is_interactive:
        yield _Lines(out)
        return
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    status = TextColumn("{task.fields[status]:>20}")
    with Bars(TextColumn("{task.description:<28}"), BarColumn(), status, TimeRemainingColumn(), console=out) as bars:
        yield _Bars(bars)


class _Bars:
    def __init__(self, bars: rich.progress.Progress) -> None:
        self._bars = bars

    def begin(self, name: str, total: float) -> Step:
        return _Bar(self._bars, self._bars.add_task(name, total=total, status="starting"), total)


class _Bar:
    def __init__(self, bars: rich.progress.Progress, task: rich.progress.TaskID, total: float) -> None:
        self._bars, self._task, self._total = bars, task, total

    def update(self, completed: float, status: str) -> None:
        self._bars.update(self._task, completed=completed, status=status)

    def end(self, status: str) -> None:
        self.update(self._total, status)


class _Lines:
    def __init__(self, out: Console) -> None:
        self._out = out

    def begin(self, name: str, total: float) -> Step:
        del total  # nothing is shown before the end
        return _Line(self._out, name)


class _Line:
    def __init__(self, out: Console, name: str) -> None:
        self._out, self._name = out, name

    def update(self, completed: float, status: str) -> None:
        pass

    def end(self, status: str) -> None:
        self._out.print(f"{self._name}: {status}", markup=False)
