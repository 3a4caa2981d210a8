"""Converts a problem document (RFC 9457) of the admin API back to the registry's error.

The error has the same class, code and next step. Must not know requests.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from flyball.errors import (
    DeadlineError,
    Fault,
    FlyballError,
    GateRefusedError,
    OverloadedError,
    RefusedError,
    ServerFaultError,
    SignatureError,
    UnavailableError,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_BY_EXIT_CODE: dict[int, type[FlyballError]] = {
    2: UsageError,
    3: RefusedError,
    4: GateRefusedError,
    5: UnavailableError,
    6: DeadlineError,
    7: OverloadedError,
    8: ServerFaultError,
}


def raised(status: int, body: bytes, headers: Mapping[str, str]) -> FlyballError:
    """The error of a response whose status is not 200."""
    problem = _problem(body)
    code, told, reason = str(problem.get("code") or ""), problem.get("exit_code"), problem.get("reason")
    next_step = str(problem["next"]) if problem.get("next") else None
    words = str(problem.get("detail") or f"the server answered {status} without a text")
    if isinstance(reason, str):
        return SignatureError(reason, words.removeprefix(f"{reason}: "), next_step=next_step)
    kind = next((one for one in _classes() if one.code == code), None)
    if kind is None or (isinstance(told, int) and kind.exit_code != told):
        kind = _BY_EXIT_CODE.get(told if isinstance(told, int) else 0, ServerFaultError if status >= 500 else FlyballError)
    faults = [Fault.from_document(one) for one in problem.get("faults") or () if isinstance(one, dict)]
    error = kind(words, code=code or None, faults=faults, next_step=next_step)
    after = headers.get("retry-after", "")
    if isinstance(error, OverloadedError) and after.isdigit():
        error.retry_after_s = float(after)
    return error


def _problem(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _classes(of: type[FlyballError] = FlyballError) -> Iterator[type[FlyballError]]:
    yield of
    for child in of.__subclasses__():
        yield from _classes(child)
