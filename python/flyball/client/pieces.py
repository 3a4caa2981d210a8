"""Many rows as several requests: how they are cut, and what an error of one of them says. Must not know protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from flyball.errors import FlyballError, InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from flyball.client.steps import Steps

T = TypeVar("T")
TOO_LARGE = "body_too_large"
"""The code of a request that is larger than the server accepts."""


def in_pieces(
    count: int,
    rows_max: int,
    send: Callable[[int, int], Steps[T]],
    may_cut: Callable[[], Steps[bool]],
    *,
    done: str = "",
) -> Steps[list[T]]:
    """Send rows 0 to `count` in pieces of at most `rows_max`, one after the other.

    A piece that is too large for the server is halved, as are the pieces after it. An error names the rows of its piece;
    `done` says what happened to the rows before them.
    """
    results: list[T] = []
    start, size = 0, rows_max
    while start < count or not results:
        end = min(start + size, count)
        try:
            results.append((yield from send(start, end)))
        except FlyballError as error:
            too_large = isinstance(error, InvalidInputError) and error.code == TOO_LARGE
            if too_large and end - start > 1 and (yield from may_cut()):
                size = (end - start + 1) // 2
                continue
            if (start, end) != (0, count):
                before = f"; rows 0 to {start - 1} {done}" if done and start else ""
                error.message = f"rows {start} to {end - 1} of {count}: {error.message}{before}"
            raise
        start = end
    return results
