"""`Client`: arrays, DataFrames and plain rows in, the same out, over HTTP or gRPC, with a deadline on every call.

The URL's scheme selects the transport; both return the same answers and raise the same errors. What each method does is in
`operations.py`, which `AsyncClient` shares.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from flyball.client.address import address_of
from flyball.client.annotations import erasure_of, hold_of, outcome_of, outcomes_of, override_of, release_of
from flyball.client.opening import dialect_of, transport_to
from flyball.client.operations import Operations
from flyball.client.steps import run
from flyball.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from flyball.client.annotations import Erased, Truth
    from flyball.client.decisions import Decided, DecidedRows
    from flyball.client.metadata import ModelMetadata
    from flyball.client.steps import Steps, Transport
    from flyball.rows.tensors import Array

T = TypeVar("T")


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
        address = address_of(url, api_key)
        self.url = url
        self._operations = Operations(dialect_of(address), deadline_ms)
        self._transport: Transport | None = transport_to(address, connections_max)
        self._turn = threading.Lock()

    def __repr__(self) -> str:
        return f"<Client {self.url}{'' if self._transport else ', closed'}>"

    @overload
    def infer(
        self,
        model: str,
        inputs: Mapping[str, Any] | Array | Sequence[Any],
        *,
        version: str | int | None = None,
        outputs: Sequence[str] | None = None,
        deadline_ms: float | None = None,
        id: str | None = None,
    ) -> dict[str, Array]: ...
    @overload
    def infer(
        self,
        model: str,
        inputs: object,
        *,
        version: str | int | None = None,
        outputs: Sequence[str] | None = None,
        deadline_ms: float | None = None,
        id: str | None = None,
    ) -> Any: ...
    def infer(
        self,
        model: str,
        inputs: object,
        *,
        version: str | int | None = None,
        outputs: Sequence[str] | None = None,
        deadline_ms: float | None = None,
        id: str | None = None,  # noqa: A002 - the protocol's own name
    ) -> Any:
        """Run a model on {input: values}, on the values of its only input, or on a DataFrame.

        Values are arrays, nested lists, tuples, generators, Series or Arrow arrays; they are converted to the model's
        types. A DataFrame has a column for each input, or the columns of the only one, and is answered with a DataFrame
        of the same library. Anything else is answered with arrays by name. `outputs` selects outputs; by default all are
        returned.
        """
        return self._run(
            self._operations.infer(model, inputs, version=version, outputs=outputs, deadline_ms=deadline_ms, id=id)
        )

    @overload
    def decide(
        self,
        decision: str,
        input: Mapping[str, Any],
        *,
        idempotency_key: str | None = None,
        explain: bool = False,
        timings: bool = False,
        deadline_ms: float | None = None,
    ) -> Decided: ...
    @overload
    def decide(
        self,
        decision: str,
        input: Iterable[Mapping[str, Any]],
        *,
        idempotency_key: str | None = None,
        explain: bool = False,
        timings: bool = False,
        deadline_ms: float | None = None,
    ) -> DecidedRows: ...
    @overload
    def decide(
        self,
        decision: str,
        input: object,
        *,
        idempotency_key: str | None = None,
        explain: bool = False,
        timings: bool = False,
        deadline_ms: float | None = None,
    ) -> Any: ...
    def decide(
        self,
        decision: str,
        input: object,  # noqa: A002 - the API's own name
        *,
        idempotency_key: str | None = None,
        explain: bool = False,
        timings: bool = False,
        deadline_ms: float | None = None,
    ) -> Any:
        """Request one decision for a mapping of fields, or one for each row of a list, a DataFrame or columns by name.

        None, NaN and pandas.NA are missing fields. A DataFrame is answered with a DataFrame. Invalid fields of one row
        raise `InvalidInputError`; `faults` has each of them. Of many rows, an invalid one has its own fault.
        A retry with the same `idempotency_key` gets the same decision, and is not counted twice.
        """
        return self._run(
            self._operations.decide(
                decision, input, idempotency_key=idempotency_key, explain=explain, timings=timings, deadline_ms=deadline_ms
            )
        )

    def decide_rows(
        self,
        decision: str,
        rows: object,
        *,
        ids: Sequence[str] | None = None,
        idempotency_key: str | None = None,
        explain: bool = False,
        timings: bool = False,
        forced_routes: Sequence[Mapping[str, object] | None] | None = None,
        deadline_ms: float | None = None,
    ) -> DecidedRows:
        """As `decide` of many rows, but always a list. A row that cannot be decided has its own fault.

        `ids` are the caller's own ids of the rows. `forced_routes`, only for offline servers: the route of each row,
        {"variant": NAME} or {"rules": true}.
        """
        return self._run(
            self._operations.decide_rows(
                decision,
                rows,
                ids=ids,
                idempotency_key=idempotency_key,
                explain=explain,
                timings=timings,
                forced_routes=forced_routes,
                deadline_ms=deadline_ms,
            )
        )

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
        outcome = outcome_of(decision, id, truth, when=when, source=source)
        return self._run(self._operations.record(outcomes_of([outcome]), deadline_ms))

    def outcomes(self, outcomes: Sequence[Mapping[str, object]], *, deadline_ms: float | None = None) -> int:
        """Record up to 1024 true outcomes {"id", "decision", "truth", "when"?, "source"?}; return how many are on disk."""
        return self._run(self._operations.count_recorded(outcomes_of(outcomes), deadline_ms))

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
        return self._run(self._operations.record(override_of(decision, id, outcome, by=by, why=why), deadline_ms))

    def erase(
        self, subject: str, *, by: str, why: str, keys: Sequence[str] = (), deadline_ms: float | None = None
    ) -> Erased:
        """Erase the personal data of a subject, which is the value of the decision's key field.

        Also removes the subject's features, and those of `keys`, further feature keys of the subject.
        """
        return self._run(self._operations.erase(erasure_of(subject, by=by, why=why, keys=keys), deadline_ms))

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
        hold = hold_of(name, by=by, why=why, decision=decision, since=since, until=until)
        return self._run(self._operations.record(hold, deadline_ms))

    def release(self, name: str, *, by: str, why: str, deadline_ms: float | None = None) -> None:
        """Release a legal hold."""
        return self._run(self._operations.record(release_of(name, by=by, why=why), deadline_ms))

    def holds(self, *, deadline_ms: float | None = None) -> list[dict[str, Any]]:
        """The legal holds in force, oldest first: {"name", "by", "why", "decision", "from", "to", "since"}."""
        return self._run(self._operations.holds(deadline_ms))

    def seal(self, *, deadline_ms: float | None = None) -> None:
        """Have the server seal and sign the journal's open segment, so that its records can be proven."""
        return self._run(self._operations.seal(deadline_ms))

    def metadata(self, model: str, *, version: str | int | None = None, deadline_ms: float | None = None) -> ModelMetadata:
        """A model's inputs and outputs, from the server."""
        return self._run(self._operations.metadata(model, version, deadline_ms))

    def ready(self, model: str | None = None, *, version: str | int | None = None, deadline_ms: float | None = None) -> bool:
        """Whether the server, or one of its models, accepts requests. False if it cannot be reached."""
        return self._run(self._operations.ready(model, version, deadline_ms))

    def live(self, *, deadline_ms: float | None = None) -> bool:
        """Whether the server runs. False if it cannot be reached."""
        return self._run(self._operations.live(deadline_ms))

    def close(self) -> None:
        """Close the connections; the client cannot be used again."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, steps: Steps[T]) -> T:
        transport = self._transport
        if transport is None:
            raise UsageError("the client is closed", next_step="create another:  flyball.Client(url)")
        return run(steps, transport, self._turn)
