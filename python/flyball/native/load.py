"""The load generator, the echo to measure it with, and histograms of its results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

from flyball.native.boundary import boundary, native
from flyball.native.load_documents import EchoOptions, LoadPlan, LoadResult, MergedHistogram


class LoadRun:
    """A load on a server, from threads of its own; begins at once."""

    def __init__(self, plan: LoadPlan, payloads: bytes) -> None:
        with boundary():
            self._run = native.LoadRun(plan.model_dump_json().encode(), payloads)

    def progress(self) -> tuple[float, int]:
        """Seconds gone, requests finished."""
        with boundary():
            return self._run.progress()

    def phase(self) -> Literal["warming", "beginning", "measuring", "ended"]:
        """How far the run is; "beginning" lasts long enough to read the server's counters before measuring begins."""
        with boundary():
            return self._run.phase()

    def finished(self) -> bool:
        """Whether the run has ended."""
        with boundary():
            return self._run.finished()

    def stop(self) -> None:
        """End the run early."""
        with boundary():
            self._run.stop()

    def result(self) -> LoadResult:
        """Wait for the end and tell what was measured."""
        with boundary():
            return LoadResult.model_validate_json(self._run.result())


class Echo:
    """A bare HTTP/1.1 server in this process, on a thread of its own."""

    def __init__(self, options: EchoOptions | None = None) -> None:
        with boundary():
            self._echo = native.Echo((options or EchoOptions()).model_dump_json().encode())

    def url(self) -> str:
        """Where it listens."""
        with boundary():
            return self._echo.url()

    def stop(self) -> None:
        """End it, and wait until it has ended."""
        with boundary():
            self._echo.stop()


def read_histograms(encoded: Sequence[str]) -> MergedHistogram:
    """Merge histograms of load results."""
    with boundary():
        document = json.dumps({"histograms": list(encoded)}).encode()
        return MergedHistogram.model_validate_json(native.read_histograms(document))
