"""What a client can do, as steps: retries, metadata, large inputs, answers in the caller's form. Must not know I/O.

`Client` and `AsyncClient` run these steps, each in its own way; nothing else differs between them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from flyball.client.annotations import HOLDS, SEAL, Annotation, Erased, recorded_from
from flyball.client.answer_frames import decided_frame
from flyball.client.deadline import Deadline, pause_before
from flyball.client.decision_rows import GivenRows, refuse_columns, rows_of
from flyball.client.decisions import ROWS_MAX, DecideCall, DecidedRow, DecidedRows, decided_from, rows_from
from flyball.client.inference import Inference
from flyball.client.pieces import in_pieces
from flyball.client.served_names import instead_of
from flyball.client.steps import Pause, Send, Steps
from flyball.errors import (
    InvalidInputError,
    NotFoundError,
    OverloadedError,
    UnavailableError,
    UnreachableError,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flyball.client.exchange import Dialect, Exchange
    from flyball.client.metadata import ModelMetadata

T = TypeVar("T")


class Operations:
    """Every operation of a client, in one protocol."""

    def __init__(self, dialect: Dialect, deadline_ms: float) -> None:
        self._dialect = dialect
        self._deadline_ms = _positive(deadline_ms)
        self._inference = Inference(dialect, self._attempts)

    def live(self, deadline_ms: float | None) -> Steps[bool]:
        """Whether the server runs."""
        return (yield from self._is(self._dialect.live(), self._deadline(deadline_ms)))

    def ready(self, model: str | None, version: str | int | None, deadline_ms: float | None) -> Steps[bool]:
        """Whether the server, or one of its models, accepts requests."""
        return (yield from self._is(self._dialect.ready(model, _version(version)), self._deadline(deadline_ms)))

    def metadata(self, model: str, version: str | int | None, deadline_ms: float | None) -> Steps[ModelMetadata]:
        """A model's inputs and outputs, as they are now."""
        deadline = self._deadline(deadline_ms)
        return (yield from self._inference.metadata(model, _version(version), deadline))

    def infer(
        self,
        model: str,
        inputs: object,
        *,
        version: str | int | None,
        outputs: Sequence[str] | None,
        deadline_ms: float | None,
        id: str | None,  # noqa: A002 - the protocol's own name
    ) -> Steps[Any]:
        """Run a model; a frame is answered with a frame, anything else with arrays by name."""
        deadline = self._deadline(deadline_ms)
        return (
            yield from self._inference.infer(
                model, _version(version), inputs, outputs=outputs, request_id=id, deadline=deadline
            )
        )

    def decide(
        self,
        decision: str,
        given: object,
        *,
        idempotency_key: str | None,
        explain: bool,
        timings: bool,
        deadline_ms: float | None,
    ) -> Steps[Any]:
        """One decision for one row, else as many as there are rows: a frame for a frame, a list for anything else."""
        deadline, rows = self._deadline(deadline_ms), rows_of(given)
        call = DecideCall(decision, rows.rows, None, rows.single, idempotency_key, explain, timings)
        if rows.single:
            return decided_from((yield from self._attempts(self._dialect.decide(call), deadline)))
        decided = yield from self._decide_rows(call, rows, deadline)
        return decided if rows.frame is None else decided_frame(rows.frame, decided)

    def decide_rows(
        self,
        decision: str,
        given: object,
        *,
        ids: Sequence[str] | None,
        idempotency_key: str | None,
        explain: bool,
        timings: bool,
        forced_routes: Sequence[Mapping[str, object] | None] | None,
        deadline_ms: float | None,
    ) -> Steps[DecidedRows]:
        """Decisions for rows, whatever form these have."""
        deadline, rows = self._deadline(deadline_ms), rows_of(given)
        for items, what in ((ids, "ids"), (forced_routes, "forced_routes")):
            if items is not None and len(items) != len(rows.rows):
                raise InvalidInputError(f"{len(items)} {what} for {len(rows.rows)} rows")
        call = DecideCall(decision, rows.rows, ids, False, idempotency_key, explain, timings, forced_routes)
        return (yield from self._decide_rows(call, rows, deadline))

    def record(self, annotation: Annotation, deadline_ms: float | None) -> Steps[None]:
        """Record an annotation; it is on the server's disk then."""
        yield from self.count_recorded(annotation, deadline_ms)

    def count_recorded(self, annotation: Annotation, deadline_ms: float | None) -> Steps[int]:
        """Record annotations; the number of those that are on the server's disk."""
        return recorded_from((yield from self._annotate(annotation, deadline_ms)))

    def erase(self, annotation: Annotation, deadline_ms: float | None) -> Steps[Erased]:
        """Erase a subject."""
        return Erased.from_document((yield from self._annotate(annotation, deadline_ms)))

    def holds(self, deadline_ms: float | None) -> Steps[list[dict[str, Any]]]:
        """The legal holds in force."""
        return list((yield from self._annotate(HOLDS, deadline_ms))["holds"])

    def seal(self, deadline_ms: float | None) -> Steps[None]:
        """Seal the journal's open segment."""
        yield from self._annotate(SEAL, deadline_ms)

    def _annotate(self, annotation: Annotation, deadline_ms: float | None) -> Steps[dict[str, Any]]:
        return (yield from self._attempts(self._dialect.annotate(annotation), self._deadline(deadline_ms)))

    def _decide_rows(self, call: DecideCall, given: GivenRows, deadline: Deadline) -> Steps[DecidedRows]:
        count, names, routes = len(call.rows), call.row_ids(), call.forced_routes
        if count == 0:
            raise InvalidInputError("no rows given")

        def send(start: int, end: int) -> Steps[list[DecidedRow]]:
            key = call.idempotency_key
            piece = replace(
                call,
                rows=call.rows[start:end],
                ids=names[start:end],
                forced_routes=None if routes is None else routes[start:end],
                # A key stands for one body, so that each piece has its own; the same input is cut in the same places.
                idempotency_key=key if key is None or (start, end) == (0, count) else f"{key}/{start}",
            )
            decided = rows_from((yield from self._attempts(self._dialect.decide(piece), deadline)))
            refuse_columns(given, call.decision, decided)
            return decided

        pieces = yield from in_pieces(count, ROWS_MAX, send, _always, done="were decided")
        return DecidedRows(row for piece in pieces for row in piece)

    def _is(self, exchange: Exchange[bool], deadline: Deadline) -> Steps[bool]:
        try:
            return (yield from self._attempts(exchange, deadline))
        except (UnavailableError, OverloadedError):
            return False

    def _attempts(self, exchange: Exchange[T], deadline: Deadline) -> Steps[T]:
        """Send, and send again if the server cannot have started the work and the deadline allows it."""
        for attempt in range(1, self._dialect.attempts_max + 1):
            last = attempt == self._dialect.attempts_max
            try:
                return exchange.read((yield Send(exchange.request, deadline)))
            except NotFoundError as error:
                error.next_step = error.next_step or instead_of(error.message)
                raise
            except UnreachableError as error:
                pause = pause_before(attempt + 1)
                if error.maybe_served or last or not deadline.allows(pause):
                    raise
            except OverloadedError as error:
                pause = error.retry_after_s if error.retry_after_s is not None else 0.0
                if error.retry_after_s is None or last or not deadline.allows(pause):
                    raise
            yield Pause(pause)
        raise AssertionError("the last attempt returns or raises")

    def _deadline(self, deadline_ms: float | None) -> Deadline:
        return Deadline(self._deadline_ms if deadline_ms is None else _positive(deadline_ms))


def _always() -> Steps[bool]:
    """Rows of a decision are decided one by one, so that they may be cut anywhere."""
    yield from ()
    return True


def _version(version: str | int | None) -> str | None:
    return str(version) if isinstance(version, int) else version


def _positive(deadline_ms: object) -> float:
    if isinstance(deadline_ms, bool) or not isinstance(deadline_ms, int | float | np.integer | np.floating):
        raise UsageError(f"deadline_ms: {deadline_ms!r} is not a number")
    if not 0 < deadline_ms < math.inf:
        raise UsageError(f"deadline_ms: {deadline_ms} is not allowed; allowed: a finite number above 0")
    return float(deadline_ms)
