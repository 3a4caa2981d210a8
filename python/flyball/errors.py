"""All errors, under `FlyballError`; each has a stable `code` and the command line's exit code.

The table below mirrors `crates/core/src/fault.rs` for Python: fault kind to class. HTTP statuses, gRPC statuses and the
JSON of `_native.NativeError` are all converted here. Must not know transports: it is given plain values.
"""

from __future__ import annotations

import difflib
import json
import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_UNKNOWN_KEY = "no such key; keys are "


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a document: its `path`, the value `found` there, and what is `allowed`."""

    path: str
    found: object
    allowed: str

    def __str__(self) -> str:
        keys = self.allowed.removeprefix(_UNKNOWN_KEY)
        if keys != self.allowed:
            close = difflib.get_close_matches(self.path.rpartition(".")[2], keys.split(", "), n=1)
            return f"{self.path}: no such key; {f'did you mean {close[0]!r}?' if close else f'keys are {keys}'}"
        return f"{self.path or 'document'}: is {_short(self.found)}, allowed: {self.allowed}"

    def document(self) -> dict[str, object]:
        """The fault as JSON, for the native boundary and for machines."""
        return {"path": self.path, "is": self.found, "allowed": self.allowed}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Fault:
        """Parse the form that `document` writes, and that the native side sends."""
        return cls(str(document.get("path", "")), document.get("is"), str(document.get("allowed", "")))


@dataclass(frozen=True, slots=True)
class LineFault(Fault):
    """A fault of a file written by people: `at` is its file and line, `text` the message."""

    at: str
    text: str

    def __str__(self) -> str:
        return f"{self.at}  {self.path}   {self.text}" if self.path else f"{self.at}  {self.text}"

    def document(self) -> dict[str, object]:
        """The fault as JSON, with its file, line and message."""
        return {**Fault.document(self), "at": self.at, "text": self.text}


class FlyballError(Exception):
    """Base of all errors. `code` is stable; the message is for people."""

    code: str = "unexpected"
    exit_code: ClassVar[int] = 1
    recorded = False
    """Whether a registry has recorded it as a refused act."""

    def __init__(
        self, message: str, *, code: str | None = None, faults: list[Fault] | None = None, next_step: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.faults = faults or []
        self.next_step = next_step
        if code is not None:
            self.code = code

    def headline(self) -> str:
        """The message without the faults, which a server repeats in it."""
        if self.faults and all(f"{fault.path}: allowed is" in self.message for fault in self.faults):
            return self.message.partition("; ")[0]
        return self.message

    def __str__(self) -> str:
        lines = [self.headline(), *(f"  {fault}" for fault in self.faults)]
        if self.next_step:
            lines.append(f"  {self.next_step}")
        return "\n".join(lines)


class UsageError(FlyballError):
    """The command was called with wrong or missing arguments."""

    code = "usage"
    exit_code = 2


class MissingExtraError(UsageError):
    """An optional part of flyball is not installed."""

    code = "missing_extra"


@contextmanager
def needing(what: str, *, extra: str) -> Iterator[None]:
    """Guard imports of optional packages: the error for a missing one names its extra."""
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(f"{what} ({error})", next_step=f"install it:  pip install 'flyball[{extra}]'") from error


class RefusedError(FlyballError):
    """The input, the model or a document was refused; a retry will not help."""

    code = "refused"
    exit_code = 3


class InvalidInputError(RefusedError):
    """A request that the model cannot accept, or an answer that the protocol cannot represent."""

    code = "invalid_input"
    row: int | None = None
    """Index of the row with the faults, if rows were checked."""


class NotFoundError(RefusedError):
    """No such model, version or decision on this server."""

    code = "model_not_found"


class KeyConflictError(RefusedError):
    """The idempotency key was used for a different request."""

    code = "key_conflict"


class HeldError(RefusedError):
    """A legal hold forbids it, or a hold with that name is already in force."""

    code = "held"


class UnauthenticatedError(RefusedError):
    """The server requires authentication, and the caller is unknown."""

    code = "unauthenticated"


class ForbiddenError(RefusedError):
    """The caller is known but lacks the right."""

    code = "forbidden"


class ModelRefusedError(RefusedError):
    """A model file that flyball cannot serve, with the reason."""

    code = "model_refused"


class SnapshotRefusedError(RefusedError):
    """A snapshot that does not parse or is invalid; `faults` has all its faults."""

    code = "snapshot_refused"


class ConfigRefusedError(RefusedError):
    """An invalid configuration; `faults` has all its faults."""

    code = "invalid_config"


class GateRefusedError(FlyballError):
    """A gate failed or could not be proven; nothing was promoted."""

    code = "gate_refused"
    exit_code = 4


class EvidenceError(FlyballError):
    """A journal that does not verify, or a proof that does not hold; findings are printed before."""

    code = "journal_broken"
    exit_code = 4


class SignatureError(FlyballError):
    """A signed document that is not trusted; `reason` is one of `flyball.signing.reasons`."""

    code = "signature_refused"
    exit_code = 4

    def __init__(self, reason: str, words: str, *, next_step: str | None = None) -> None:
        super().__init__(f"{reason}: {words}", next_step=next_step)
        self.reason, self.words = reason, words


class UnavailableError(FlyballError):
    """The server cannot be reached or is shutting down, or the model is not ready."""

    code = "unavailable"
    exit_code = 5


class LockedError(UnavailableError):
    """Another process has locked the journal for writing."""

    code = "journal_locked"


class JournalRefusedError(RefusedError):
    """A folder that is not a journal, a wrong key, or a missing record."""

    code = "journal_refused"


class ArtifactRefusedError(RefusedError):
    """Bytes that do not match their digest, or an invalid package or bundle file."""

    code = "artifact_refused"


class ArtifactsUnavailableError(UnavailableError):
    """The artifact store cannot be reached, is full, or timed out; nothing was partially written."""

    code = "artifacts_unavailable"


class RegistryRefusedError(RefusedError):
    """A folder that is not a registry, an invalid event, or something the registry does not have."""

    code = "registry_refused"


class RegistryConflictError(RefusedError):
    """Someone else changed the same name first; the message says who did what. Nothing was changed."""

    code = "registry_conflict"


class RegistryBrokenError(EvidenceError):
    """A registry whose chain or tables do not verify."""

    code = "registry_broken"


class RegistryUnavailableError(UnavailableError):
    """The registry's database cannot be reached or is busy; with `maybe_kept`, the connection was lost during a commit."""

    code = "registry_unavailable"
    maybe_kept: bool = False


class UnreachableError(UnavailableError):
    """The connection failed, or broke before the answer (`maybe_served`)."""

    code = "unreachable"
    maybe_served: bool = True


class DeadlineError(FlyballError):
    """The deadline passed before the answer."""

    code = "deadline_passed"
    exit_code = 6


class OverloadedError(FlyballError):
    """The server shed the request; `retry_after_s` is the server's advice, if any."""

    code = "in_flight_full"
    exit_code = 7
    retry_after_s: float | None = None


class ServerFaultError(FlyballError):
    """The server failed to answer a valid request."""

    code = "run_failed"
    exit_code = 8


_BY_KIND: dict[str, type[FlyballError]] = {
    **dict.fromkeys(("malformed_request", "invalid_input", "fields_invalid", "body_too_large"), InvalidInputError),
    **dict.fromkeys(("unsupported", "not_offered", "run_memory_exceeded"), InvalidInputError),
    **dict.fromkeys(("answer_not_representable", "answer_too_large"), InvalidInputError),
    "unauthenticated": UnauthenticatedError,
    "forbidden": ForbiddenError,
    "key_conflict": KeyConflictError,
    **dict.fromkeys(("model_not_found", "version_not_found", "decision_not_found", "record_not_found"), NotFoundError),
    "held": HeldError,
    "model_refused": ModelRefusedError,
    "snapshot_refused": SnapshotRefusedError,
    "invalid_config": ConfigRefusedError,
    "journal_refused": JournalRefusedError,
    "journal_locked": LockedError,
    **dict.fromkeys(("journal_broken", "journal_moved"), EvidenceError),
    "registry_refused": RegistryRefusedError,
    "registry_conflict": RegistryConflictError,
    "registry_broken": RegistryBrokenError,
    "registry_unavailable": RegistryUnavailableError,
    **dict.fromkeys(("model_not_ready", "client_gone", "feature_unavailable", "record_failed"), UnavailableError),
    **dict.fromkeys(("body_timeout", "deadline_passed", "deadline_unreachable"), DeadlineError),
    **dict.fromkeys(("caller_limited", "in_flight_full", "lane_full", "wait_too_long"), OverloadedError),
    **dict.fromkeys(("breaker_open", "memory_full"), OverloadedError),
    **dict.fromkeys(("run_failed", "run_stopped", "guard_violated", "panicked"), ServerFaultError),
}

_BY_EXIT_CODE: dict[int, type[FlyballError]] = {
    kind.exit_code: kind
    for kind in (UsageError, RefusedError, UnavailableError, DeadlineError, OverloadedError, ServerFaultError)
}

_BY_HTTP_STATUS: dict[int, type[FlyballError]] = {
    **dict.fromkeys((400, 413, 415, 422, 501), InvalidInputError),
    401: UnauthenticatedError,
    403: ForbiddenError,
    **dict.fromkeys((404, 405), NotFoundError),
    **dict.fromkeys((408, 504), DeadlineError),
    409: KeyConflictError,
    429: OverloadedError,
    **dict.fromkeys((499, 503), UnavailableError),
}

_OF_A_VERSION = re.compile(r"Request for unknown model: '.*' version .* is not found")
_BY_GRPC_STATUS: dict[str, type[FlyballError]] = {
    **dict.fromkeys(("INVALID_ARGUMENT", "FAILED_PRECONDITION", "UNIMPLEMENTED"), InvalidInputError),
    "NOT_FOUND": NotFoundError,
    "ALREADY_EXISTS": KeyConflictError,
    "PERMISSION_DENIED": ForbiddenError,
    "UNAUTHENTICATED": UnauthenticatedError,
    "RESOURCE_EXHAUSTED": OverloadedError,
    **dict.fromkeys(("CANCELLED", "UNAVAILABLE"), UnavailableError),
    "DEADLINE_EXCEEDED": DeadlineError,
    **dict.fromkeys(("INTERNAL", "UNKNOWN", "DATA_LOSS"), ServerFaultError),
}


_SIGNATURE_STEPS = {
    "unknown_key": "trust the key:  flyball trust add PUBLIC-KEY --name NAME --role ROLE",
    "key_expired": "sign again with a valid key",
}


def from_native(text: str) -> FlyballError:
    """Convert a `_native.NativeError`; text that is not JSON becomes the message."""
    try:
        document = json.loads(text)
    except ValueError:
        return FlyballError(text)
    if not isinstance(document, dict):
        return FlyballError(text)
    code = str(document.get("code", FlyballError.code))
    if code == SignatureError.code:
        reason = str(document.get("reason"))
        return SignatureError(reason, str(document.get("message")), next_step=_SIGNATURE_STEPS.get(reason))
    faults = [Fault.from_document(item) for item in document.get("faults") or []]
    kind = _BY_KIND.get(code) or _BY_EXIT_CODE.get(document.get("exit_code", 1), FlyballError)
    error = kind(str(document.get("message", text)), code=code, faults=faults)
    if isinstance(error, InvalidInputError):
        error.row = document.get("row")
    return error


def from_http(status: int, message: str, retry_after_s: float | None = None) -> FlyballError:
    """Convert an HTTP error response. A 503 has Retry-After only if the server shed the request."""
    if status in (429, 503) and retry_after_s is not None:
        overloaded = OverloadedError(message)
        overloaded.retry_after_s = retry_after_s
        return overloaded
    kind = _BY_HTTP_STATUS.get(status)
    if kind is None:
        kind = ServerFaultError if status >= 500 else FlyballError
    return kind(message or f"the server returned {status} without a message", code=_code(kind, message))


def from_problem(status: int, problem: Mapping[str, Any], retry_after_s: float | None = None) -> FlyballError:
    """Convert `application/problem+json` (RFC 9457): its type is the fault kind, its faults are fields."""
    label = str(problem.get("type") or "").rpartition(":")[2]
    message = str(problem.get("detail") or problem.get("title") or f"the server returned {status} without a message")
    kind = _BY_KIND.get(label) or type(from_http(status, message))
    faults = [
        Fault(str(item.get("field", "")), _found(item.get("is")), str(item.get("allowed", "")))
        for item in problem.get("faults") or ()
        if isinstance(item, dict)
    ]
    error = kind(message, code=label or None, faults=faults)
    if isinstance(error, OverloadedError):
        after_ms = problem.get("retry_after_ms")
        error.retry_after_s = after_ms / 1000 if isinstance(after_ms, int | float) else retry_after_s
    return error


def _found(value: object) -> object:
    """The value of a field: sent as JSON text, which is kept as text if it was truncated."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def from_grpc(status: str, message: str) -> FlyballError:
    """Convert a gRPC status, given by name."""
    kind = _BY_GRPC_STATUS.get(status, FlyballError)
    return kind(message or f"the server returned {status} without a message", code=_code(kind, message))


def _code(kind: type[FlyballError], message: str) -> str | None:
    """Two kinds share one status; only the message distinguishes them."""
    return "version_not_found" if kind is NotFoundError and _OF_A_VERSION.match(message) else None


def _short(value: object) -> str:
    text = "absent or null" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def plain_cause(error: BaseException) -> str:
    """The plainest message in a chain of causes: the operating system's, if there is one."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower()
        cause = cause.__cause__ or cause.__context__
    return str(error)
