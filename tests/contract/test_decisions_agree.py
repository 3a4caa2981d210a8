"""Decisions, every way in: JSON and gRPC through every door give the same decisions and the same faults, and `/v1` keeps to
its own rules.
"""

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conformance.certificates import make_certificates
from tests.support import onnx_models as makers
from tests.support import raw_h2, serving, snapshots
from tests.support.card_decision import CARD, GOOD, PATH, TONGUES, Found, Wish, by_json
from tests.support.transports import DOORS, Open
from tests.support.wire import Http, infer_path, json_request, metrics, settled

WAYS = [(tongue, door) for tongue in TONGUES for door in DOORS]
every_way = pytest.mark.parametrize("way", WAYS, ids=[f"{tongue} over {door}" for tongue, door in WAYS])


@pytest.fixture(scope="module")
def house(model: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Open, serving.Server]]:
    """One server with a decision and a plain model, which listens everywhere."""
    folder = tmp_path_factory.mktemp("decisions")
    made, port, path = make_certificates(folder / "certificates"), serving.free_port(), folder / "house.sock"
    listen = ["127.0.0.1:0", f"tls://127.0.0.1:{port}", f"unix:{path}"]
    settings = {"listen": listen, "tls_cert": str(made.server.certificate), "tls_key": str(made.server.key)}
    config = folder / "config.json"
    config.write_text(json.dumps(settings))
    documents = [
        snapshots.deployment("card", model("linear"), decision=CARD),
        snapshots.deployment("linear", model("linear")),
    ]
    index = snapshots.write(folder / "snapshot", 1, documents)
    with serving.serving([*serving.flyballd(), "--snapshot", str(index), "--config", str(config)]) as server:
        yield Open((server.host, server.port), path, ("localhost", port), made.authority.certificate), server


@pytest.fixture
def doors(house: tuple[Open, serving.Server]) -> Open:
    return house[0]


@pytest.fixture
def server(house: tuple[Open, serving.Server]) -> serving.Server:
    return house[1]


def asked(doors: Open, way: tuple[str, str], wish: Wish) -> Found:
    tongue, door = way
    return TONGUES[tongue](DOORS[door](doors), wish)


def without_ids(answer: dict[str, Any]) -> dict[str, Any]:
    """Ids are new each time, and so is the time that was taken."""
    rows = [{key: part for key, part in row.items() if key != "decision_id"} for row in answer.get("rows", ())]
    kept = {key: part for key, part in answer.items() if key not in ("id", "rows", "timings_us")}
    return {**kept, "rows": rows} if "rows" in answer else kept


def score(reference: Callable[[str, makers.Arrays], makers.Arrays], fields: dict[str, Any]) -> float:
    place = {"DE": 0, "FR": 1}.get(fields["country"], 2)
    columns = [fields["amount"], fields["hour"], place, fields.get("new", False)]
    return float(reference("linear", {"x": np.array([columns], np.float32)})["y"][0, 0])


ROWS = {
    "plain": GOOD,
    "a default that is given": {**GOOD, "new": True},
    "null for what may be missing": {**GOOD, "email": None},
    "an unknown category": {**GOOD, "country": "中国"},
    "a whole number for a float": {**GOOD, "amount": 12},
    "a rule": {"amount": 950.5, "hour": 23, "country": "FR"},
    "the edges": {"amount": 0.0, "hour": 0, "country": "DE"},
}


@every_way
@pytest.mark.parametrize("fields", ROWS.values(), ids=ROWS.keys())
def test_every_way_in_gives_the_same_decision(
    doors: Open, reference: Callable[[str, makers.Arrays], makers.Arrays], fields: dict[str, Any], way: tuple[str, str]
) -> None:
    got = asked(doors, way, Wish(fields))
    assert got.fault is None
    wanted = score(reference, fields)
    assert got.answer["score"] == pytest.approx(wanted, rel=1e-5)
    band = "pass" if got.answer["score"] < 0 else "review"
    ruled = fields["amount"] > 900 and fields["country"] != "DE"
    assert (got.answer["outcome"], got.answer["band"]) == ("reject" if ruled else band, band)
    assert [reason["code"] for reason in got.answer["reasons"]] == ["TOO_MUCH"] * ruled
    assert uuid.UUID(got.answer["id"]).version == 7
    assert (got.answer["route"], got.answer["remedy"]) == ("champion", None)
    assert without_ids(got.answer) == without_ids(asked(doors, WAYS[0], Wish(fields)).answer)


MANY = Wish(rows=(("a", GOOD), ("b", {"amount": -1.0, "hour": 3, "country": "FR"}), ("c", ROWS["a rule"]), ("", GOOD)))


@every_way
def test_rows_of_many_are_decided_or_refused_one_by_one(doors: Open, way: tuple[str, str]) -> None:
    got = asked(doors, way, MANY)
    assert got.fault is None
    rows = got.answer["rows"]
    assert [row["id"] or "" for row in rows] == ["a", "b", "c", ""]
    (fault,) = rows[1]["fault"]["faults"]
    assert (fault["field"], fault["is"]) == ("amount", "-1")
    assert rows[2]["outcome"] == "reject"
    assert without_ids({"rows": [rows[0]]})["rows"][0] | {"id": ""} == without_ids({"rows": [rows[3]]})["rows"][0] | {
        "id": ""
    }
    assert len({row["decision_id"] for row in rows if "decision_id" in row}) == 3


FAULTS = {
    "an unknown decision": ("NOT_FOUND", Wish(GOOD, decision="nobody")),
    "a model without a decision": ("NOT_FOUND", Wish(GOOD, decision="linear")),
    "a field that is missing": ("INVALID_ARGUMENT", Wish({"amount": 1.0, "country": "FR"})),
    "a field that nobody knows": ("INVALID_ARGUMENT", Wish({**GOOD, "amuont": 1.0})),
    "a number beyond its range": ("INVALID_ARGUMENT", Wish({**GOOD, "hour": 24})),
    "a text for a number": ("INVALID_ARGUMENT", Wish({**GOOD, "hour": "3"})),
    "a text that is too long": ("INVALID_ARGUMENT", Wish({**GOOD, "email": "é" * 11})),
    "three fields at once": ("INVALID_ARGUMENT", Wish({"amount": True, "hour": 99, "country": 1, "new": "no"})),
}


@every_way
@pytest.mark.parametrize(("status", "wish"), FAULTS.values(), ids=FAULTS.keys())
def test_every_way_in_gives_the_same_fault_in_the_same_words(
    doors: Open, status: str, wish: Wish, way: tuple[str, str]
) -> None:
    wanted = asked(doors, WAYS[0], wish).fault
    assert wanted is not None
    assert wanted[0] == status
    assert asked(doors, way, wish).fault == wanted


@every_way
def test_a_retry_with_its_key_gets_the_same_decision_and_another_body_a_conflict(doors: Open, way: tuple[str, str]) -> None:
    key = f"contract {way}"
    first, again = (asked(doors, way, Wish(GOOD, key=key)) for _ in range(2))
    assert again.answer == {**first.answer, "repeated": True}
    conflict = asked(doors, way, Wish({**GOOD, "hour": 4}, key=key)).fault
    assert conflict is not None
    assert conflict[0] == "ALREADY_EXISTS"


@every_way
def test_times_of_stages_come_when_they_are_asked_for(doors: Open, way: tuple[str, str]) -> None:
    timings = asked(doors, way, Wish(GOOD, timings=True)).answer["timings_us"]
    assert {"parse", "route", "features", "tensor", "policy"} <= timings.keys()
    assert all(time >= 0 for time in timings.values())
    assert "timings_us" not in asked(doors, way, Wish(GOOD)).answer


def problem(reply: Any, status: int, kind: str | None) -> dict[str, Any]:
    assert (reply.status, reply.headers["content-type"]) == (status, "application/problem+json")
    body: dict[str, Any] = reply.json
    assert body["status"] == status
    assert body["type"] == ("about:blank" if kind is None else f"urn:flyball:fault:{kind}")
    return body


BAD_BODIES = {
    "no JSON": (b"{", "EOF"),
    "a list": (b"[]", "an object"),
    "neither": (b"{}", "neither 'input'"),
    "unknown keys": (b'{"input": {}, "inputs": {}, "rwos": 1}', "no key 'inputs', 'rwos'"),
    "a key twice": (b'{"input": {}, "input": {}}', "duplicate field"),
    "no rows": (b'{"rows": []}', "'rows' is empty"),
    "not UTF-8": (b'{"input": {"\xff": 1}}', "not UTF-8"),
}


@pytest.mark.parametrize(("body", "told"), BAD_BODIES.values(), ids=BAD_BODIES.keys())
def test_a_body_that_is_no_request_is_a_problem_that_says_why(server: serving.Server, body: bytes, told: str) -> None:
    with Http(server) as connection:
        assert told in problem(connection.post(PATH, body), 400, "malformed_request")["detail"]


def test_a_field_that_stands_twice_is_refused(server: serving.Server) -> None:
    with Http(server) as connection:
        reply = connection.post(PATH, b'{"input": {"amount": 1.0, "hour": 3, "country": "FR", "amount": 2.0}}')
    assert [fault["field"] for fault in problem(reply, 422, "fields_invalid")["faults"]] == ["amount"]


def test_every_fault_of_fields_is_told_at_once_with_what_stands_there(server: serving.Server) -> None:
    with Http(server) as connection:
        reply = connection.post(PATH, {"input": {"amount": [1], "hour": 99, "country": "FR", "amuont": 1}})
    told = problem(reply, 422, "fields_invalid")
    assert told["decision"] == "card"
    faults = {fault["field"]: fault for fault in told["faults"]}
    assert faults.keys() == {"amount", "hour", "amuont"}
    assert faults["hour"]["is"] == "99"
    assert "amount" in faults["amuont"]["allowed"]


def test_paths_and_verbs_that_are_not_there_are_problems_of_http_alone(server: serving.Server) -> None:
    with Http(server) as connection:
        problem(connection.get("/v1"), 404, None)
        problem(connection.get("/v1/decision/card"), 404, None)
        refused = connection.request("DELETE", PATH)
        problem(refused, 405, None)
        assert refused.headers["allow"] == "GET, HEAD, POST"
        problem(connection.get("/v1/decisions/nobody"), 404, "decision_not_found")
        problem(connection.request("POST", PATH, b"{}", {"Content-Encoding": "br"}), 415, "unsupported")
        problem(connection.request("POST", PATH, b"{}", {"Idempotency-Key": "k" * 257}), 400, "malformed_request")
        assert connection.get("/v2/nowhere").error


def test_decisions_are_listed_and_described(server: serving.Server) -> None:
    with Http(server) as connection:
        (card,) = connection.get("/v1/decisions").json["decisions"]
        described = connection.get(PATH).json
    assert (card["decision"], card["outcomes"]) == ("card", ["pass", "review", "reject"])
    assert "input" not in card
    fields = {field["name"]: field for field in described["input"]}
    assert fields["amount"] == {"name": "amount", "type": "float", "required": True, "min": 0.0, "max": 1000.0}
    assert fields["country"]["values"] == ["DE", "FR", "elsewhere"]
    assert fields["new"] == {"name": "new", "type": "bool", "required": False, "default": False}
    assert {**described, "input": None} == {**card, "input": None}


def test_the_models_of_a_decision_are_asked_by_the_decision_alone(server: serving.Server) -> None:
    with Http(server) as connection:
        refused = connection.post(infer_path("card"), json_request(makers.row("linear", 1)))
    assert refused.status == 403
    assert "call POST /v1/decisions/card" in refused.error


def test_decisions_are_counted_by_outcome_and_repeats_are_not_decisions(doors: Open, server: serving.Server) -> None:
    def counted(metric: str, **labels: str) -> float:
        settled(server)
        return metrics(server).sum(metric, decision="card", **labels)

    before = counted("flyball_decisions_total"), counted("flyball_decisions_repeated_total")
    for _ in range(3):
        by_json(DOORS["TCP"](doors), Wish(ROWS["a rule"], key="counted once"))
    asked(doors, WAYS[0], MANY)
    after = counted("flyball_decisions_total"), counted("flyball_decisions_repeated_total")
    assert (after[0] - before[0], after[1] - before[1]) == (1 + 3, 2)
    assert counted("flyball_decisions_total", outcome="reject") >= 2


@pytest.mark.parametrize("message", [b"\xff\xff\xff", b"\n\ncard-fraud\x12\xff"], ids=["no message", "cut off"])
def test_a_message_that_does_not_decode_is_told_as_such(server: serving.Server, message: bytes) -> None:
    with raw_h2.Connection(server) as connection:
        answer = connection.call(raw_h2.frame(message), "/flyball.v1.Decisions/Decide")
    assert answer.status == 3
    assert "the message does not decode" in answer.message
