"""Decisions through the client: what travels, what comes back as types, and what errors say, over HTTP and gRPC alike."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
import pytest

from flyball import Client, Decided, errors
from flyball.client import Reason, UsedModel, UsedRemedy
from flyball.client.decisions import DecideCall, rows_from
from flyball.client.fields import plain_row
from flyball.client.grpc_decisions import document_of, request_of
from tests.support.v2_server import V2Server

DIGEST = "sha256:" + "1" * 64
ANSWER = {
    "id": "0192f6c1-2345-7fff-bfff-ffffffffffff",
    "decision": "card-fraud",
    "outcome": "review",
    "band": "review",
    "score": 0.41,
    "reasons": [{"code": "R02", "text": "amount", "field": "amount", "contribution": 0.31}, {"code": "R11"}],
    "models": [{"model": "fraud", "version": "1", "digest": DIGEST}],
    "policy": DIGEST,
    "schema": DIGEST,
    "document": "sha256:" + "d" * 64,
    "route": "champion",
    "remedy": {"cause": "deadline_passed", "stage": "queue", "used": "rules"},
    "repeated": True,
    "timings_us": {"parse": 6.1},
}
PROBLEM = {
    "type": "urn:flyball:fault:fields_invalid",
    "title": "fields invalid",
    "status": 422,
    "detail": "2 fields are invalid",
    "decision": "card-fraud",
    "faults": [
        {"field": "amount", "is": -3.0, "allowed": "0 to 100000"},
        {"field": "currency", "is": None, "allowed": "required: one of EUR, USD"},
    ],
}


@pytest.fixture
def server():
    with V2Server() as running:
        yield running


@pytest.fixture
def client(server):
    with Client(server.url, deadline_ms=5000) as made:
        yield made


def answers(server, status, document, kind="application/json", **headers):
    named = {"Content-Type": kind, **{name.replace("_", "-"): value for name, value in headers.items()}}
    server.script.append(lambda handler: handler.answer(status, json.dumps(document).encode(), named))


def test_a_decision_travels_as_named_fields_and_comes_back_typed(server, client):
    answers(server, 200, ANSWER)
    row = {"amount": np.float32(12.5), "count": np.int64(3), "at": datetime(2026, 11, 15, tzinfo=UTC), "home": None}
    decided = client.decide("card fraud", row, idempotency_key="k-1", explain=True, timings=True)
    path, headers, body = server.seen[0]
    assert path == "/v1/decisions/card%20fraud"
    assert headers["idempotency-key"] == "k-1"
    assert 0 < int(headers["x-request-timeout-ms"]) <= 5000
    assert json.loads(body) == {
        "input": {"amount": 12.5, "count": 3, "at": "2026-11-15T00:00:00+00:00", "home": None},
        "explain": True,
        "timings": True,
    }
    assert (decided.outcome, decided.band, decided.score, decided.route) == ("review", "review", 0.41, "champion")
    assert decided.reasons == (Reason("R02", "amount", "amount", 0.31), Reason("R11"))
    assert decided.models == (UsedModel("fraud", "1", DIGEST),)
    assert decided.remedy == UsedRemedy("deadline_passed", "queue", "rules")
    assert (decided.repeated, decided.timings_us) == (True, {"parse": 6.1})


def test_what_was_not_asked_for_does_not_travel(server, client):
    answers(server, 200, {key: ANSWER[key] for key in ("id", "decision", "outcome")})
    assert client.decide("d", {}) == Decided(ANSWER["id"], "card-fraud", "review")
    assert json.loads(server.seen[0][2]) == {"input": {}}
    assert "idempotency-key" not in server.seen[0][1]


def test_fields_that_are_invalid_are_each_named(server, client):
    answers(server, 422, PROBLEM, "application/problem+json")
    with pytest.raises(errors.InvalidInputError, match="2 fields are invalid") as caught:
        client.decide("card-fraud", {})
    assert caught.value.code == "fields_invalid"
    assert [(fault.path, fault.found, fault.allowed) for fault in caught.value.faults] == [
        ("amount", -3.0, "0 to 100000"),
        ("currency", None, "required: one of EUR, USD"),
    ]
    assert "amount: is -3.0, allowed: 0 to 100000" in str(caught.value)


@pytest.mark.parametrize(
    ("status", "label", "kind"),
    [
        (404, "decision_not_found", errors.NotFoundError),
        (409, "key_conflict", errors.KeyConflictError),
        (503, "feature_unavailable", errors.UnavailableError),
        (500, "guard_violated", errors.ServerFaultError),
        (504, "deadline_passed", errors.DeadlineError),
        (418, "of_a_later_server", errors.FlyballError),
    ],
)
def test_a_problem_is_the_error_of_its_kind(server, client, status, label, kind):
    answers(server, status, {"type": f"urn:flyball:fault:{label}", "detail": "why"}, "application/problem+json")
    with pytest.raises(kind, match="why") as caught:
        client.decide("d", {})
    assert caught.value.code == label


def test_overload_is_waited_out_as_long_as_the_server_says(server, client):
    busy = {"type": "urn:flyball:fault:in_flight_full", "detail": "busy", "retry_after_ms": 1}
    answers(server, 503, busy, "application/problem+json", Retry_After="1")
    answers(server, 200, ANSWER)
    assert client.decide("d", {}).outcome == "review"
    assert len(server.seen) == 2


def test_rows_have_their_own_ids_decisions_and_faults(server, client):
    shared = {key: ANSWER[key] for key in ("decision", "document", "policy", "schema", "models")}
    first = {"id": "a", "decision_id": ANSWER["id"], "outcome": "pass", "score": 0.1}
    answers(server, 200, {**shared, "rows": [first, {"id": "b", "fault": PROBLEM}]})
    good, bad = client.decide_rows("card-fraud", [{"amount": 1}, {"amount": -3}], ids=["a", "b"])
    assert json.loads(server.seen[0][2]) == {
        "rows": [{"id": "a", "input": {"amount": 1}}, {"id": "b", "input": {"amount": -3}}]
    }
    assert (good.id, good.decided.id, good.decided.policy, good.fault) == ("a", ANSWER["id"], DIGEST, None)
    assert (bad.id, bad.decided, bad.fault.code) == ("b", None, "fields_invalid")
    assert bad.fault.faults[0].path == "amount"


def test_no_rows_and_other_ids_are_refused_before_they_travel(server, client):
    for rows, ids in (([], None), ([{}], ["a", "b"])):
        with pytest.raises(errors.InvalidInputError):
            client.decide_rows("d", rows, ids=ids)
    assert not server.seen


def test_an_infinite_number_is_refused_before_it_travels(server, client):
    with pytest.raises(errors.InvalidInputError, match="'amount' is inf; allowed: a finite number"):
        client.decide("d", {"amount": float("inf")})
    assert not server.seen


@pytest.mark.parametrize("key", ["", "a b", "ü", "a\nb", "k" * 257])
def test_an_idempotency_key_that_no_header_carries_is_refused_before_it_travels(server, client, key):
    with pytest.raises(errors.InvalidInputError, match="idempotency_key: "):
        client.decide("d", {}, idempotency_key=key)
    assert not server.seen


@pytest.mark.parametrize("document", [{}, {"id": 1}, {"id": "x", "decision": "d", "outcome": "o", "models": [{}]}])
def test_an_answer_that_is_no_decision_is_the_server_s_fault(server, client, document):
    answers(server, 200, document)
    with pytest.raises(errors.ServerFaultError, match="not a decision"):
        client.decide("d", {})


def test_grpc_messages_say_the_same_as_json():
    from flyball.client import _decisions_pb2 as messages

    row = {"text": "a", "whole": 3, "large": 2**70, "real": 0.5, "flag": True, "none": None, "np": np.float64(1.5),
           "at": datetime(2026, 11, 15, tzinfo=UTC)}  # fmt: skip
    request = request_of(DecideCall("d", [plain_row(row)], explain=True), messages)
    fields = request.rows[0].input
    kinds = {name: fields[name].WhichOneof("kind") for name in row}
    assert kinds == {
        "text": "text_value", "whole": "int_value", "large": "double_value", "real": "double_value",
        "flag": "bool_value", "none": "null_value", "np": "double_value", "at": "text_value",
    }  # fmt: skip
    assert (request.decision, request.explain, request.timings) == ("d", True, False)
    answer = messages.DecideResponse(decision="card-fraud", policy=DIGEST, schema=DIGEST, was_repeated=True)
    answer.document = ANSWER["document"]
    answer.models.add(model="fraud", version="1", digest=DIGEST)
    answer.timings.add(stage="parse", us=6.1)
    decision = answer.rows.add(id="a").decision
    decision.id, decision.outcome, decision.band, decision.score, decision.route = (
        ANSWER["id"], "review", "review", 0.41, "champion",
    )  # fmt: skip
    decision.reasons.add(code="R02", text="amount", field="amount", contribution=0.31)
    decision.reasons.add(code="R11")
    decision.remedy.cause, decision.remedy.stage, decision.remedy.used = "deadline_passed", "queue", "rules"
    from flyball.client.decisions import decided_from

    assert decided_from(document_of(answer, single=True)) == decided_from(ANSWER)


def test_grpc_rows_carry_the_faults_of_their_fields():
    from flyball.client import _decisions_pb2 as messages

    answer = messages.DecideResponse(decision="d")
    fault = answer.rows.add(id="b").fault
    fault.kind, fault.detail = "fields_invalid", "1 field is invalid"
    fault.faults.add(**{"field": "amount", "is": "-3.0", "allowed": "0 to 100000"})
    fault.faults.add(field="currency", allowed="required")
    (row,) = rows_from(document_of(answer, single=False))
    assert [(item.path, item.found) for item in row.fault.faults] == [("amount", -3.0), ("currency", None)]
    with pytest.raises(errors.InvalidInputError, match="1 field is invalid") as caught:
        document_of(answer, single=True)
    assert len(caught.value.faults) == 2


def test_a_unix_socket_is_an_address(tmp_path):
    with Client(f"unix:{tmp_path}/none", deadline_ms=200) as client, pytest.raises(errors.UnreachableError) as caught:
        client.decide("d", {})
    assert caught.value.maybe_served is False


def test_fields_travel_in_the_same_plain_forms_over_both_transports(server, client):
    answers(server, 200, ANSWER)
    at = datetime(2026, 11, 15, 7, tzinfo=UTC)
    client.decide("card-fraud", {"amount": Decimal("12.50"), "at": at, "n": np.int64(3)})
    assert json.loads(server.seen[0][2])["input"] == {"amount": 12.5, "at": at.isoformat(), "n": 3}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"at": datetime(2026, 11, 15)}, "'at': the time has no time zone"),
        ({"note": "\ud800"}, "'note' is not valid Unicode"),
        ({"amount": 1, "tags": ["a"]}, "'tags' has the unsupported type list"),
        ({"tags": {1, 2}}, "'tags' has the unsupported type set"),
        ({"what": object()}, "'what' has the unsupported type object"),
        ([{"amount": 1}, {"tags": {1}}], "row 1: field 'tags' has the unsupported type set"),
        ([{"amount": 1}, 3], "row 1: a row is a mapping of fields, not int"),
        (3, "a row is a mapping of fields, not int"),
        ("amount", "a row is a mapping of fields, not str"),
    ],
)
def test_a_field_that_cannot_travel_is_named_before_it_does(client, row, words):
    with pytest.raises(errors.InvalidInputError, match=words):
        client.decide("card-fraud", row)


def test_outcomes_and_overrides_travel_as_the_api_has_them(server, client):
    answers(server, 200, {"recorded": 1})
    client.outcome("pay", ANSWER["id"], "fraud", when=datetime(2026, 11, 15, 7, 30, tzinfo=UTC), source="chargeback")
    sent = json.loads(server.seen[-1][2])
    assert sent == {
        "outcomes": [
            {
                "id": ANSWER["id"],
                "decision": "pay",
                "truth": "fraud",
                "when": "2026-11-15T07:30:00Z",
                "source": "chargeback",
            }
        ]
    }
    answers(server, 200, {"recorded": 1})
    client.override("pay", ANSWER["id"], "pass", by="ana", why="known customer")
    told = {"id": ANSWER["id"], "decision": "pay", "outcome": "pass", "by": "ana", "why": "known customer"}
    assert json.loads(server.seen[-1][2]) == told


def test_an_outcome_s_time_has_a_zone(client):
    with pytest.raises(errors.InvalidInputError, match="no time zone"):
        client.outcome("pay", ANSWER["id"], True, when=datetime(2026, 11, 15))


def test_rows_go_the_way_they_are_made_to(server, client):
    answers(server, 200, {**ANSWER, "rows": [{**ANSWER, "id": "0", "decision_id": ANSWER["id"]}]})
    client.decide_rows("card-fraud", [{"amount": 1.0}], forced_routes=[{"variant": "champion"}])
    assert json.loads(server.seen[-1][2])["rows"] == [{"id": "0", "input": {"amount": 1.0}, "as": {"variant": "champion"}}]
    with pytest.raises(errors.InvalidInputError, match="2 forced_routes for 1 rows"):
        client.decide_rows("card-fraud", [{"amount": 1.0}], forced_routes=[None, None])
