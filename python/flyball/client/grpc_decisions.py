"""Decisions over gRPC: converts messages of proto/decisions.proto to and from their JSON form. Must not know channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flyball.errors import ServerFaultError, from_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flyball.client.decisions import DecideCall

_INT64 = 2**63


def request_of(call: DecideCall, messages: Any) -> Any:
    """The request's message. One row is sent as a list: a gRPC status has no room for faults of fields."""
    request = messages.DecideRequest(decision=call.decision, explain=call.explain, timings=call.timings)
    ids = [""] if call.single else call.row_ids()
    for name, row in zip(ids, call.rows, strict=True):
        _fill(request.rows.add(id=name).input, row)
    return request


def document_of(answer: Any, *, single: bool) -> dict[str, Any]:
    """The response in its JSON form; raises if the only row was not decided."""
    shared: dict[str, Any] = {
        "decision": answer.decision,
        "document": answer.document,
        "policy": answer.policy,
        "schema": answer.schema,
        "models": [{"model": item.model, "version": item.version, "digest": item.digest} for item in answer.models],
        "repeated": answer.was_repeated,
        "timings_us": {item.stage: item.us for item in answer.timings},
    }
    rows = [_row(item) for item in answer.rows]
    if not single:
        return {**shared, "rows": rows}
    if len(rows) != 1:
        raise ServerFaultError(f"the response has {len(rows)} rows instead of one", code="bad_answer")
    if "fault" in rows[0]:
        raise from_problem(500, rows[0]["fault"])
    return {**shared, **rows[0], "id": rows[0]["decision_id"]}


def _row(item: Any) -> dict[str, Any]:
    if item.WhichOneof("result") == "fault":
        faults = [
            {"field": one.field, "is": getattr(one, "is") if one.HasField("is") else None, "allowed": one.allowed}
            for one in item.fault.faults
        ]
        return {
            "id": item.id,
            "fault": {"type": f"urn:flyball:fault:{item.fault.kind}", "detail": item.fault.detail, "faults": faults},
        }
    return {"id": item.id, "decision_id": item.decision.id, **_decision(item.decision)}


def _decision(decision: Any) -> dict[str, Any]:
    present = {key: getattr(decision, key) for key in ("band", "score", "route") if decision.HasField(key)}
    remedy = decision.remedy
    return {
        "outcome": decision.outcome,
        **present,
        "scores": dict(decision.scores),
        "reasons": [_reason(item) for item in decision.reasons],
        "remedy": {"cause": remedy.cause, "stage": remedy.stage, "used": remedy.used}
        if decision.HasField("remedy")
        else None,
    }


def _reason(item: Any) -> dict[str, Any]:
    present = {key: getattr(item, key) for key in ("text", "field", "contribution") if item.HasField(key)}
    return {"code": item.code, **present}


def _fill(fields: Any, row: Mapping[str, object]) -> None:
    for name, value in row.items():
        _set(fields[name], value)


def _set(cell: Any, value: object) -> None:
    match value:
        case None:
            cell.null_value = 0
        case bool():
            cell.bool_value = value
        case int() if -_INT64 <= value < _INT64:
            cell.int_value = value
        case int() | float():
            cell.double_value = float(value)
        case _:
            cell.text_value = value
