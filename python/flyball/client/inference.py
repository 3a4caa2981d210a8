"""Inference as steps: metadata that is asked once, large inputs in pieces, and one repeat after a reload. No I/O.

A model's metadata decides how values are converted. A reload may change it, and then either this client or the server
refuses the inputs; so after a refusal the metadata is asked again, and the call is repeated once if it has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.client.answer_frames import outputs_frame
from flyball.client.model_inputs import GivenInputs, arrays_of, given_inputs
from flyball.client.pieces import in_pieces
from flyball.client.steps import InTurn, Steps
from flyball.errors import FlyballError, InvalidInputError, RefusedError, ServerFaultError
from flyball.rows.tensors import Array, InferCall, encode

if TYPE_CHECKING:
    from flyball.client.deadline import Deadline
    from flyball.client.exchange import Dialect, Exchange
    from flyball.client.metadata import ModelMetadata

    Attempts = Callable[[Exchange[Any], Deadline], Steps[Any]]

REQUEST_BYTES_MAX = 8 << 20
"""Bytes of tensors in one request of many rows: an eighth of the server's default limit for a body."""
REQUEST_ROWS_MAX = 8192
"""Rows in one request: some ms of a small model, so that one large call does not delay other callers for long."""


@dataclass(slots=True)
class _Known:
    """What is known of a model; `cuttable` once it was needed."""

    metadata: ModelMetadata
    cuttable: bool | None = None


class Inference:
    """The inference operations of a client, and what it knows of models."""

    def __init__(self, dialect: Dialect, attempts: Attempts) -> None:
        self._dialect = dialect
        self._attempts = attempts
        self._known: dict[tuple[str, str | None], _Known] = {}

    def metadata(self, model: str, version: str | None, deadline: Deadline) -> Steps[ModelMetadata]:
        """A model's metadata from the server; later calls use it."""
        metadata: ModelMetadata = yield from self._attempts(self._dialect.metadata(model, version), deadline)
        self._known[model, version] = _Known(metadata)
        return metadata

    def infer(
        self,
        model: str,
        version: str | None,
        inputs: object,
        *,
        outputs: Sequence[str] | None,
        request_id: str | None,
        deadline: Deadline,
    ) -> Steps[Any]:
        """Run a model on a caller's inputs."""
        given = given_inputs(inputs)
        call = InferCall(model, version, [], None if outputs is None else list(outputs), request_id)
        remembered = self._known.get((model, version))
        known = remembered or (yield from self._describe(call, deadline))
        try:
            return (yield from self._infer(call, given, known, deadline))
        except InvalidInputError as error:
            if remembered is None or error.code != InvalidInputError.code:
                raise
            try:
                known = yield from self._describe_again(call, remembered, deadline)
            except FlyballError:
                raise error from None
            if known.metadata == remembered.metadata:
                raise
        try:
            return (yield from self._infer(call, given, known, deadline))
        except InvalidInputError as error:
            error.message += f"; the model has changed since this client last asked: {remembered.metadata} before"
            raise

    def _infer(self, call: InferCall, given: GivenInputs, known: _Known, deadline: Deadline) -> Steps[Any]:
        arrays = arrays_of(given, known.metadata)
        lengths = {array.shape[0] if array.ndim else 0 for array in arrays.values()}
        count = lengths.pop() if len(lengths) == 1 else 0  # inputs without a common first axis are one request

        def cuttable() -> Steps[bool]:
            return (yield from self._cuttable(call, known, deadline))

        def send(start: int, end: int) -> Steps[dict[str, Array]]:
            whole = end - start >= count
            tensors = [encode(name, array if whole else array[start:end]) for name, array in arrays.items()]
            piece = InferCall(call.model, call.version, tensors, call.outputs, call.id)
            answer: dict[str, Array] = yield from self._attempts(self._dialect.infer(piece), deadline)
            return answer if whole else _of_rows(answer, end - start)

        rows_max = _rows_max(arrays, count)
        if rows_max < count and not (yield from cuttable()):
            rows_max = count
        pieces = yield from in_pieces(count, rows_max, send, cuttable)
        outputs = pieces[0] if len(pieces) == 1 else _joined(pieces)
        return outputs if given.frame is None else outputs_frame(given.frame, outputs)

    def _describe(self, call: InferCall, deadline: Deadline) -> Steps[_Known]:
        """What is known of a model; several calls that need it at once ask once."""

        def asked() -> Steps[_Known]:
            if (call.model, call.version) not in self._known:
                yield from self.metadata(call.model, call.version, deadline)
            return self._known[call.model, call.version]

        known: _Known = yield InTurn(asked, deadline)
        return known

    def _describe_again(self, call: InferCall, stale: _Known, deadline: Deadline) -> Steps[_Known]:
        if self._known.get((call.model, call.version)) is stale:
            del self._known[call.model, call.version]
        return (yield from self._describe(call, deadline))

    def _cuttable(self, call: InferCall, known: _Known, deadline: Deadline) -> Steps[bool]:
        """Whether the answer for a row does not depend on the others: servers batch only such models."""
        if known.cuttable is None:
            exchange = self._dialect.rows_per_run(call.model, call.version)
            try:
                known.cuttable = (yield from self._attempts(exchange, deadline)) > 0
            except RefusedError:  # a server without the extension
                known.cuttable = False
        return known.cuttable


def _rows_max(arrays: Mapping[str, Array], count: int) -> int:
    """How many rows one request may have."""
    size = sum(_bytes_of(array) for array in arrays.values())
    return max(1, min(REQUEST_ROWS_MAX, count * REQUEST_BYTES_MAX // max(size, 1)))


def _bytes_of(array: Array) -> int:
    if array.dtype != object:
        return array.nbytes
    return sum(4 + len(item) for item in array.flat if isinstance(item, str | bytes))


def _of_rows(answer: dict[str, Array], rows: int) -> dict[str, Array]:
    for name, array in answer.items():
        if array.ndim == 0 or len(array) != rows:
            raise ServerFaultError(
                f"output {name!r} has the shape {list(array.shape)} for {rows} rows, so that answers cannot be joined",
                code="bad_answer",
            )
    return answer


def _joined(pieces: list[dict[str, Array]]) -> dict[str, Array]:
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
