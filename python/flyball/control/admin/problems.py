"""Refusals of the admin API as `application/problem+json` (RFC 9457): one table from errors to HTTP statuses.

A problem has the error's stable code, all faults and the next step, so that `registry/remote` can raise the same error. Must
not know routes.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from flyball.documents.log import log
from flyball.errors import (
    ConfigRefusedError,
    DeadlineError,
    EvidenceError,
    Fault,
    FlyballError,
    ForbiddenError,
    GateRefusedError,
    InvalidInputError,
    NotFoundError,
    OverloadedError,
    RefusedError,
    SignatureError,
    UnauthenticatedError,
    UnavailableError,
    UsageError,
)
from flyball.registry.remote.hidden_paths import without_paths

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI, Request

MEDIA_TYPE = "application/problem+json"
FAULTS_MAX = 64
_FOUND_CHARACTERS_MAX = 200

# The first matching class decides, so subclasses precede their parents.
STATUSES: tuple[tuple[type[FlyballError], int], ...] = (
    (UnauthenticatedError, 401),
    (ForbiddenError, 403),
    (NotFoundError, 404),
    (GateRefusedError, 409),
    (SignatureError, 422),
    (EvidenceError, 500),
    (ConfigRefusedError, 500),
    (UsageError, 400),
    (RefusedError, 422),
    (OverloadedError, 503),
    (UnavailableError, 503),
    (DeadlineError, 504),
)
# Codes with their own HTTP status, whatever their class.
CODES: dict[str, int] = {
    "registry_conflict": 409,
    "body_too_large": 413,
    "unsupported_media": 415,
    "malformed_request": 400,
    "body_timeout": 408,
}


class TooLargeError(RefusedError):
    """A body above its route's limit."""

    code = "body_too_large"


def status_of(error: FlyballError) -> int:
    """The HTTP status of an error."""
    if error.code in CODES:
        return CODES[error.code]
    return next((status for kind, status in STATUSES if isinstance(error, kind)), 500)


def problem_of(error: FlyballError, request_id: str) -> dict[str, Any]:
    """The problem document of an error, without empty keys."""
    status = status_of(error)
    document: dict[str, Any] = {
        "type": f"urn:flyball:fault:{error.code}",
        "title": error.code.replace("_", " "),
        "status": status,
        "detail": without_paths(error.message),
        "code": error.code,
        "exit_code": error.exit_code,
        "request_id": request_id,
    }
    if isinstance(error, SignatureError):
        document["reason"] = error.reason
    if error.next_step:
        document["next"] = without_paths(error.next_step)
    if error.faults:
        document["faults"] = [_shown(fault) for fault in error.faults[:FAULTS_MAX]]
    return document


def _shown(fault: Fault) -> dict[str, object]:
    document = fault.document()
    return {
        key: without_paths(value) if key != "is" and isinstance(value, str) else value for key, value in document.items()
    }


def answer_problems(app: FastAPI) -> None:
    """Answer every exception of a route with a problem, including FastAPI's and Starlette's own."""
    for kind in (FlyballError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _answer)


def respond(error: FlyballError, request_id: str) -> JSONResponse:
    """The response for an error."""
    headers = {"x-request-id": request_id}
    if isinstance(error, UnauthenticatedError):
        headers["www-authenticate"] = 'Bearer realm="flyball"'
    if isinstance(error, OverloadedError) and error.retry_after_s is not None:
        headers["retry-after"] = str(max(1, round(error.retry_after_s)))
    document = problem_of(error, request_id)
    if document["detail"] != error.message:
        log("INFO", "admin request refused", request_id=request_id, reason=error.message[:2000])
    return JSONResponse(document, document["status"], headers, MEDIA_TYPE)


def refusal_of(error: Exception) -> FlyballError | None:
    """An exception of ours, FastAPI or Starlette as our error; None for plain HTTP errors such as 404."""
    if isinstance(error, FlyballError):
        return error
    if isinstance(error, RequestValidationError):
        return _invalid(error)
    if isinstance(error, HTTPException) and error.status_code in _REFUSALS:
        return _REFUSALS[error.status_code]()
    return None


async def _answer(request: Request, error: Exception) -> JSONResponse:
    """The handler for the three classes that `refusal_of` knows."""
    refused, request_id = refusal_of(error), _id_of(request)
    if refused is not None:
        return respond(refused, request_id)
    assert isinstance(error, HTTPException)  # noqa: S101 - an unknown path or method
    document = {
        "type": "about:blank",
        "title": HTTPStatus(error.status_code).phrase,
        "status": error.status_code,
        "detail": f"{request.method} {request.url.path[:200]} does not exist",
        "request_id": request_id,
        "next": "list all routes:  GET /openapi.json",
    }
    return JSONResponse(document, error.status_code, error.headers, MEDIA_TYPE)


def _invalid(error: RequestValidationError) -> FlyballError:
    """Pydantic's errors of a body or query, as faults with their paths."""
    if any(found["type"] == "json_invalid" for found in error.errors()):
        return _REFUSALS[400]()
    faults = [Fault(_place(found["loc"]), _found(found.get("input")), found["msg"].lower()) for found in error.errors()]
    return RefusedError(
        f"the request has {len(faults)} invalid part{'s' * (len(faults) != 1)}",
        code="invalid_request",
        faults=faults,
        next_step="the fields and their limits:  GET /openapi.json",
    )


_REFUSALS: dict[int, Callable[[], FlyballError]] = {
    400: lambda: InvalidInputError("the body is not JSON", code="malformed_request", next_step="send one JSON object"),
    408: lambda: DeadlineError("the body was not complete in time", code="body_timeout", next_step="send it again"),
    413: lambda: TooLargeError("the body is larger than this route allows", next_step="send less in one request"),
}


def unforeseen(error: Exception, request_id: str) -> JSONResponse:
    """An internal error: logged under the request's id, hidden from the caller."""
    if isinstance(error, HTTPException) and error.status_code in _REFUSALS:
        return respond(_REFUSALS[error.status_code](), request_id)  # raised while an unused body was read
    log("ERROR", "admin request failed", request_id=request_id, reason=repr(error)[:2000])
    hidden = FlyballError(
        "the registry failed with an internal error", code="unexpected", next_step=f"the server's log has {request_id}"
    )
    return respond(hidden, request_id)


def _id_of(request: Request) -> str:
    return str(getattr(request.state, "request_id", "-"))


def _place(location: tuple[Any, ...]) -> str:
    """`body.environments[0]` from pydantic's tuple."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _found(value: Any) -> Any:
    """The refused value, shortened: a body may be megabytes."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= _FOUND_CHARACTERS_MAX else text[:_FOUND_CHARACTERS_MAX] + "…"
