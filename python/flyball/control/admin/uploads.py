"""Large request bodies: streamed to a file, size-limited, a few at a time.

Must not know what they contain.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool

from flyball.control.admin.problems import TooLargeError
from flyball.errors import InvalidInputError, OverloadedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from fastapi import Request

BYTES_MAX = 4 << 30
AT_ONCE_MAX = 4
PREFIX = ".passing-"
_RETRY_AFTER_S = 5.0
_LEFT_S = 86_400


@contextmanager
def slot(places: threading.Semaphore, full: str, retry_after_s: float) -> Iterator[None]:
    """Hold one of a few slots; refuses at once if all are taken."""
    if not places.acquire(blocking=False):
        error = OverloadedError(full, next_step="try again in a moment")
        error.retry_after_s = retry_after_s
        raise error
    try:
        yield
    finally:
        places.release()


@dataclass
class Uploads:
    """The folder of uploads, and their limits."""

    folder: Path | None = None
    bytes_max: int = BYTES_MAX
    _places: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(AT_ONCE_MAX))

    def clear(self, now: float | None = None) -> None:
        """Remove what killed servers left behind; newer than a day may be another server's."""
        before = (time.time() if now is None else now) - _LEFT_S
        for left in self.folder.glob(f"{PREFIX}*") if self.folder else ():
            if left.is_dir() and left.stat().st_mtime < before:
                shutil.rmtree(left, ignore_errors=True)

    @asynccontextmanager
    async def received(self, request: Request, media_type: str) -> AsyncIterator[tuple[Path, Path]]:
        """The body as a file and an empty folder beside it; both are removed afterwards."""
        sent = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if sent != media_type:
            raise InvalidInputError(
                f"the body is {sent or 'of unknown type'}, expected {media_type}",
                code="unsupported_media",
                next_step=f"send it as content-type: {media_type}",
            )
        announced = request.headers.get("content-length", "")
        if announced.isdigit() and int(announced) > self.bytes_max:
            raise self._too_large()
        with (
            slot(self._places, f"{AT_ONCE_MAX} uploads are in progress already", _RETRY_AFTER_S),
            tempfile.TemporaryDirectory(prefix=PREFIX, dir=self.folder) as made,
        ):
            body, beside = Path(made, "body"), Path(made, "folder")
            beside.mkdir()
            await self._write(request, body)
            yield body, beside

    async def _write(self, request: Request, body: Path) -> None:
        left = self.bytes_max
        with body.open("xb") as file:
            async for chunk in request.stream():
                left -= len(chunk)
                if left < 0:
                    raise self._too_large()
                await run_in_threadpool(file.write, chunk)

    def _too_large(self) -> TooLargeError:
        return TooLargeError(
            f"the body is larger than {self.bytes_max:,} bytes",
            next_step="register it on the registry's machine, or start flyball admin with a larger --upload-gib-max",
        )
