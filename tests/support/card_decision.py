"""A small decision for the tests, requested by JSON or gRPC over any transport.

Written from the documents' descriptions, not with flyball's own compiler or client, so that no mistake is shared.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc

from flyball.client import _decisions_pb2 as pb
from tests.support.transports import GRPC_OF_HTTP, TIMEOUT_S, Door

PATH = "/v1/decisions/card"
DECIDE = "/flyball.v1.Decisions/Decide"
KINDS = {bool: "bool_value", int: "int_value", float: "double_value", str: "text_value"}


def field(name: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


# For the model 'linear' (four floats in, two out), whose first output is the score.
CARD: dict[str, Any] = {
    "owner": "risk@example.com",
    "purpose": "decide on card payments in tests",
    "input": [
        field("amount", "float", min=0, max=1000),
        field("hour", "int", min=0, max=23),
        field("country", "category", values=["DE", "FR", "elsewhere"], unknown="elsewhere"),
        field("new", "bool", required=False, default=False),
        field("email", "string", required=False, pii=True, length_max=20),
    ],
    "transforms": [{"op": "ordinal", "of": ["country"], "values": [["DE", "FR", "elsewhere"]], "unknown": -1.0}],
    "models": [
        {
            "name": "linear",
            "version": "1",
            "inputs": [{"tensor": "x", "columns": ["amount", "hour", "country", "new"]}],
            "score": {"output": "y", "element": 0},
        }
    ],
    "variants": [{"name": "champion", "models": ["linear"], "weights": {"linear": 1.0}}],
    "policy": {
        "outcomes": ["pass", "review", "reject"],
        "adverse": ["reject"],
        "bands": [{"name": "pass", "to": 0.0}, {"name": "review", "from": 0.0}],
        "rules": [{"when": "amount > 900.0 && country != 'DE'", "then": "reject", "reason": "TOO_MUCH"}],
        "reasons": {"texts": {"TOO_MUCH": "a large amount from abroad"}},
    },
}
GOOD = {"amount": 12.5, "hour": 3, "country": "FR"}


@dataclass(frozen=True)
class Wish:
    """What is asked for, whatever carries it: one row, or many with their ids."""

    input: dict[str, Any] | None = None
    rows: tuple[tuple[str, dict[str, Any]], ...] = ()
    explain: bool = False
    timings: bool = False
    key: str = ""
    decision: str = "card"


@dataclass(frozen=True)
class Found:
    """What came back, in the form that JSON has; or the gRPC name of the status and its text."""

    answer: dict[str, Any]
    fault: tuple[str, str] | None = None


def body_of(wish: Wish) -> dict[str, Any]:
    flags = {name: True for name in ("explain", "timings") if getattr(wish, name)}
    if wish.input is not None:
        return {"input": wish.input, **flags}
    return {"rows": [{"id": id_, "input": fields} for id_, fields in wish.rows], **flags}


def by_json(door: Door, wish: Wish) -> Found:
    headers = {"Idempotency-Key": wish.key} if wish.key else {}
    with door.http() as connection:
        reply = connection.post(f"/v1/decisions/{wish.decision}", body_of(wish), **headers)
    if reply.status == 200:
        return Found(reply.json)
    assert reply.headers["content-type"] == "application/problem+json", reply.headers
    problem = reply.json
    assert problem["status"] == reply.status
    # A field that is not as it should be is 422 here, and an argument over gRPC.
    status = "INVALID_ARGUMENT" if problem["type"].endswith("fields_invalid") else GRPC_OF_HTTP[reply.status]
    return Found(problem, (status, problem["detail"]))


def value(given: Any) -> Any:
    return pb.Value(null_value=pb.NULL) if given is None else pb.Value(**{KINDS[type(given)]: given})


def message_of(wish: Wish) -> Any:
    message = pb.DecideRequest(decision=wish.decision, explain=wish.explain, timings=wish.timings)
    for name, given in (wish.input or {}).items():
        message.input[name].CopyFrom(value(given))
    for id_, fields in wish.rows:
        row = message.rows.add(id=id_)
        for name, given in fields.items():
            row.input[name].CopyFrom(value(given))
    return message


def by_grpc(door: Door, wish: Wish) -> Found:
    metadata = [("idempotency-key", wish.key)] if wish.key else []
    with door.channel() as channel:
        call = channel.unary_unary(
            DECIDE, request_serializer=pb.DecideRequest.SerializeToString, response_deserializer=pb.DecideResponse.FromString
        )
        try:
            response = call(message_of(wish), timeout=TIMEOUT_S, metadata=metadata)
        except grpc.RpcError as refused:
            return Found({}, (refused.code().name, refused.details()))
    return Found(_as_json(response, single=wish.input is not None))


def _as_json(response: Any, *, single: bool) -> dict[str, Any]:
    """The answer as JSON would have it, so that the two can be compared."""
    common: dict[str, Any] = {
        "decision": response.decision,
        "models": [{"model": by.model, "version": by.version, "digest": by.digest} for by in response.models],
        "document": response.document,
        "policy": response.policy,
        "schema": response.schema,
    }
    if response.was_repeated:
        common["repeated"] = True
    if response.timings:
        common["timings_us"] = {time.stage: time.us for time in response.timings}
    if single:
        (row,) = response.rows
        return {"id": row.decision.id, **_decided(row.decision), **common}
    return {"rows": [_row(row) for row in response.rows], **common}


def _row(row: Any) -> dict[str, Any]:
    named = {"id": row.id or None}
    if row.WhichOneof("result") == "decision":
        return {**named, "decision_id": row.decision.id, **_decided(row.decision)}
    faults = [{"field": fault.field, "is": _is(fault), "allowed": fault.allowed} for fault in row.fault.faults]
    return {**named, "fault": {"kind": row.fault.kind, "detail": row.fault.detail, "faults": faults}}


def _is(fault: Any) -> str | None:
    """`is` is a word of Python's own."""
    return getattr(fault, "is") if fault.HasField("is") else None


def _decided(decision: Any) -> dict[str, Any]:
    def given(of: Any, name: str) -> Any:
        return getattr(of, name) if of.HasField(name) else None

    reasons = []
    for reason in decision.reasons:
        parts = {name: given(reason, name) for name in ("text", "field", "contribution")}
        reasons.append({"code": reason.code} | {name: part for name, part in parts.items() if part is not None})
    remedy = decision.remedy
    used = {"cause": remedy.cause, "stage": remedy.stage, "used": remedy.used} if decision.HasField("remedy") else None
    return {
        "outcome": decision.outcome,
        "band": given(decision, "band"),
        "score": given(decision, "score"),
        **({"scores": dict(decision.scores)} if decision.scores else {}),
        "reasons": reasons,
        "route": given(decision, "route"),
        "remedy": used,
    }


TONGUES: dict[str, Callable[[Door, Wish], Found]] = {"JSON": by_json, "gRPC": by_grpc}
