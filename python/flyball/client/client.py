"""`Client`: NumPy in, NumPy out, over HTTP or gRPC, with a deadline on every call.

The URL's scheme selects the transport; both return the same answers and raise the same errors.
"""

from __future__ import annotations

import math
import os
import threading
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, urlsplit

import numpy as np

from flyball.client.annotations import Erased, Truth, hold_of, outcome_of, recorded_from
from flyball.client.deadline import Deadline
from flyball.client.decisions import ROWS_MAX, DecideCall, Decided, DecidedRow, decided_from, rows_from
from flyball.client.fields import plain_row
from flyball.errors import InvalidInputError, UsageError
from flyball.rows.tensors import Array, InferCall, as_array, encode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from flyball.client.grpc import GrpcTransport
    from flyball.client.http import HttpTransport
    from flyball.client.metadata import ModelMetadata


API_KEY_ENV = "FLYBALL_API_KEY"
_ADDRESS = "write http://HOST:PORT, grpc://HOST:PORT or unix:/PATH"


class Client:
    """A client of one server. Threads may share it; close it, or use it in a `with`.

        with flyball.Client("http://127.0.0.1:8080", deadline_ms=50) as client:
            client.infer("fraud", {"input": rows})["probabilities"]

    `deadline_ms` bounds each call, retries included; the server gets the remaining time. `api_key` authenticates the
    caller; by default it is FLYBALL_API_KEY from the environment.
    """

    def __init__(
        self, url: str, *, deadline_ms: float = 10_000, connections_max: int = 64, api_key: str | None = None
    ) -> None:
        self.url = url
        self._deadline_ms = _positive(deadline_ms)
        key = api_key or os.environ.get(API_KEY_ENV) or None
        self._open: HttpTransport | GrpcTransport | None = _transport(url, connections_max, key)
        self._known: dict[tuple[str, str | None], ModelMetadata] = {}
        self._lock = threading.Lock()

    def infer(
        self,
        model: str,
        inputs: Mapping[str, Array | Sequence[object]],
        *,
        version: str | int | None = None,
        outputs: Sequence[str] | None = None,
        deadline_ms: float | None = None,
        id: str | None = None,  # noqa: A002 - the protocol's own name
    ) -> dict[str, Array]:
        """Run a model. Arrays are sent as they are; lists are converted to the datatype in the model's metadata.

        Strings are object or `U` arrays. `outputs` selects outputs; by default all are returned.
        """
        deadline, version = self._deadline(deadline_ms), _version(version)
        if not inputs:
            raise InvalidInputError("no inputs given")
        tensors = [encode(name, self._array(model, version, name, value, deadline)) for name, value in inputs.items()]
        call = InferCall(model, version, tensors, None if outputs is None else list(outputs), id)
        return self._transport.infer(call, deadline)

    def decide(
        self,
        decision: str,
        input: Mapping[str, object],  # noqa: A002 - the API's own name
        *,
        idempotency_key: str | None = None,
        explain: bool = False,
        timings: bool = False,
        deadline_ms: float | None = None,
    ) -> Decided:
        """Request one decision. Invalid fields raise `InvalidInputError`; `faults` has each of them.

        A retry with the same `idempotency_key` gets the same decision, and is not counted twice.
        """
        call = DecideCall(decision, [plain_row(input)], None, True, idempotency_key, explain, timings)
        return decided_from(self._transport.decide(call, self._deadline(deadline_ms)))

    def decide_rows(
        self,
        decision: str,
        rows: Sequence[Mapping[str, object]],
        *,
        ids: Sequence[str] | None = None,
        idempotency_key: str | None = None,
        explain: bool = False,
        timings: bool = False,
        forced_routes: Sequence[Mapping[str, object] | None] | None = None,
        deadline_ms: float | None = None,
    ) -> list[DecidedRow]:
        """Request up to 1024 decisions. A row that cannot be decided has its own fault; the others are decided.

        `forced_routes`, only for offline servers: the route of each row, {"variant": NAME} or {"rules": true}.
        """
        if not 1 <= len(rows) <= ROWS_MAX:
            raise InvalidInputError(f"{len(rows)} rows; allowed: 1 to {ROWS_MAX} at once")
        for given, what in ((ids, "ids"), (forced_routes, "forced_routes")):
            if given is not None and len(given) != len(rows):
                raise InvalidInputError(f"{len(given)} {what} for {len(rows)} rows")
        call = DecideCall(
            decision, [plain_row(row) for row in rows], ids, False, idempotency_key, explain, timings, forced_routes
        )
        return rows_from(self._transport.decide(call, self._deadline(deadline_ms)))

    def outcome(
        self,
        decision: str,
        id: str,  # noqa: A002 - the API's own name
        truth: Truth,
        *,
        when: datetime | None = None,
        source: str | None = None,
        deadline_ms: float | None = None,
    ) -> None:
        """Record the true outcome of a decision; possibly late and more than once."""
        self.outcomes([outcome_of(decision, id, truth, when=when, source=source)], deadline_ms=deadline_ms)

    def outcomes(self, outcomes: Sequence[Mapping[str, object]], *, deadline_ms: float | None = None) -> int:
        """Record up to 1024 true outcomes {"id", "decision", "truth", "when"?, "source"?}; return how many are on disk."""
        if not 1 <= len(outcomes) <= ROWS_MAX:
            raise InvalidInputError(f"{len(outcomes)} outcomes; allowed: 1 to {ROWS_MAX} at once")
        document = {"outcomes": [dict(item) for item in outcomes]}
        return recorded_from(self._transport.annotate("/v1/outcomes", document, self._deadline(deadline_ms)))

    def override(
        self,
        decision: str,
        id: str,  # noqa: A002 - the API's own name
        outcome: str,
        *,
        by: str,
        why: str,
        deadline_ms: float | None = None,
    ) -> None:
        """Record a person's override of a decision, and why. The outcome must be one of the decision's."""
        document = {"id": id, "decision": decision, "outcome": outcome, "by": by, "why": why}
        recorded_from(self._transport.annotate("/v1/overrides", document, self._deadline(deadline_ms)))

    def erase(
        self, subject: str, *, by: str, why: str, keys: Sequence[str] = (), deadline_ms: float | None = None
    ) -> Erased:
        """Erase the personal data of a subject, which is the value of the decision's key field.

        Also removes the subject's features, and those of `keys`, further feature keys of the subject.
        """
        document = {"subject": subject, "by": by, "why": why, "keys": list(keys)}
        return Erased.from_document(self._transport.annotate("/v1/erasures", document, self._deadline(deadline_ms)))

    def hold(
        self,
        name: str,
        *,
        by: str,
        why: str,
        decision: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        deadline_ms: float | None = None,
    ) -> None:
        """Order a legal hold: until its release, its records are kept and their subjects cannot be erased."""
        document = hold_of(name, by=by, why=why, decision=decision, since=since, until=until)
        recorded_from(self._transport.annotate("/v1/holds", document, self._deadline(deadline_ms)))

    def release(self, name: str, *, by: str, why: str, deadline_ms: float | None = None) -> None:
        """Release a legal hold."""
        path, document = f"/v1/holds/{quote(name, safe='')}", {"by": by, "why": why}
        recorded_from(self._transport.annotate(path, document, self._deadline(deadline_ms), "DELETE"))

    def holds(self, *, deadline_ms: float | None = None) -> list[dict[str, Any]]:
        """The legal holds in force, oldest first: {"name", "by", "why", "decision", "from", "to", "since"}."""
        return list(self._transport.annotate("/v1/holds", {}, self._deadline(deadline_ms), "GET")["holds"])

    def seal(self, *, deadline_ms: float | None = None) -> None:
        """Have the server seal and sign the journal's open segment, so that its records can be proven."""
        self._transport.annotate("/v1/journal/seals", {}, self._deadline(deadline_ms))

    def metadata(self, model: str, *, version: str | int | None = None, deadline_ms: float | None = None) -> ModelMetadata:
        """A model's inputs and outputs, from the server."""
        return self._transport.metadata(model, _version(version), self._deadline(deadline_ms))

    def ready(self, model: str | None = None, *, version: str | int | None = None, deadline_ms: float | None = None) -> bool:
        """Whether the server, or one of its models, accepts requests. False if it cannot be reached."""
        return self._transport.ready(model, _version(version), self._deadline(deadline_ms))

    def live(self, *, deadline_ms: float | None = None) -> bool:
        """Whether the server runs. False if it cannot be reached."""
        return self._transport.live(self._deadline(deadline_ms))

    def close(self) -> None:
        """Close the connections; the client cannot be used again."""
        transport, self._open = self._open, None
        if transport is not None:
            transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _transport(self) -> HttpTransport | GrpcTransport:
        transport = self._open
        if transport is None:
            raise UsageError("the client is closed", next_step="create another:  flyball.Client(url)")
        return transport

    def _deadline(self, deadline_ms: float | None) -> Deadline:
        return Deadline(self._deadline_ms if deadline_ms is None else _positive(deadline_ms))

    def _array(self, model: str, version: str | None, name: str, value: object, deadline: Deadline) -> Array:
        if isinstance(value, np.ndarray):
            return value
        metadata = self._cached_metadata(model, version, deadline)
        for tensor in metadata.inputs:
            if tensor.name == name:
                return as_array(value, tensor.datatype)
        names = ", ".join(tensor.name for tensor in metadata.inputs)
        raise InvalidInputError(f"model {model!r} has no input {name!r}; its inputs are {names}")

    def _cached_metadata(self, model: str, version: str | None, deadline: Deadline) -> ModelMetadata:
        """The model's metadata, fetched once: a deployment does not change its input datatypes."""
        with self._lock:
            known = self._known.get((model, version))
        if known is None:
            known = self._transport.metadata(model, version, deadline)
            with self._lock:
                self._known[(model, version)] = known
        return known


def _transport(url: str, connections_max: int, api_key: str | None) -> HttpTransport | GrpcTransport:
    """The transport that the URL's scheme selects."""
    parts = urlsplit(url)
    socket = parts.path if parts.scheme == "unix" and not parts.netloc else ""
    if not socket and (parts.scheme not in ("http", "grpc") or not parts.netloc):
        raise UsageError(f"{url!r} is not a server's address", next_step=_ADDRESS)
    if not socket and (parts.path.strip("/") or parts.query or parts.fragment):
        extra = url.partition(parts.netloc)[2]
        raise UsageError(f"{url!r} must not have a path: remove {extra!r}", next_step=_ADDRESS)
    if parts.scheme == "grpc":
        from flyball.client.grpc import GrpcTransport

        return GrpcTransport(parts.netloc, api_key)
    from flyball.client.http import HttpTransport

    return HttpTransport(f"http://{parts.netloc or 'localhost'}", connections_max, socket or None, api_key)


def _version(version: str | int | None) -> str | None:
    return str(version) if isinstance(version, int) else version


def _positive(deadline_ms: object) -> float:
    if isinstance(deadline_ms, bool) or not isinstance(deadline_ms, int | float | np.integer | np.floating):
        raise UsageError(f"deadline_ms: {deadline_ms!r} is not a number")
    if not 0 < deadline_ms < math.inf:
        raise UsageError(f"deadline_ms: {deadline_ms} is not allowed; allowed: a finite number above 0")
    return float(deadline_ms)
