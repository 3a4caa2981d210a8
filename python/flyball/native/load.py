"""The load generator, the echo server that measures it, and histograms of its results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

from flyball.native.boundary import call, native
from flyball.native.load_documents import EchoOptions, LoadPlan, LoadResult, MergedHistogram


class LoadRun:
    """A load run on its own threads; it starts at once."""

    def __init__(self, plan: LoadPlan, payloads: bytes) -> None:
        self._run = call(native.LoadRun, plan.model_dump_json().encode(), payloads)

    def progress(self) -> tuple[float, int]:
        """Elapsed seconds, and finished requests."""
        return call(self._run.progress)

    def phase(self) -> Literal["warming", "beginning", "measuring", "ended"]:
        """The run's phase; "beginning" lasts long enough to read the server's counters before measuring."""
        return call(self._run.phase)

    def finished(self) -> bool:
        """Whether the run has ended."""
        return call(self._run.finished)

    def stop(self) -> None:
        """End the run early."""
        call(self._run.stop)

    def result(self) -> LoadResult:
        """Wait for the end, and return the measurements."""
        return LoadResult.model_validate_json(call(self._run.result))


class Echo:
    """A bare HTTP/1.1 server in this process, on its own thread."""

    def __init__(self, options: EchoOptions | None = None) -> None:
        self._echo = call(native.Echo, (options or EchoOptions()).model_dump_json().encode())

    def url(self) -> str:
        """Its URL."""
        return call(self._echo.url)

    def stop(self) -> None:
        """Stop it, and wait until it has stopped."""
        call(self._echo.stop)


def read_histograms(encoded: Sequence[str]) -> MergedHistogram:
    """Merge histograms of load results."""
    document = json.dumps({"histograms": list(encoded)}).encode()
    return MergedHistogram.model_validate_json(call(native.read_histograms, document))
