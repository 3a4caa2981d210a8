"""Large inputs travel as several requests: how they are cut, joined and halved, and which rows an error names."""

import json

import numpy as np
import pytest

from flyball import Client, errors
from flyball.client import inference
from tests.support.v2_server import LENGTH, V2Server, refusal

TOO_LARGE = refusal(413, "the body's size exceeds the maximum")


@pytest.fixture
def server():
    """Its models have one matrix of floats; it batches them, which says that rows do not depend on each other."""
    with V2Server() as running:
        running.metadata["inputs"] = [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]
        running.metadata["max_batch_size"] = 64
        yield running


@pytest.fixture
def client(server, monkeypatch):
    monkeypatch.setattr(inference, "REQUEST_ROWS_MAX", 4)
    with Client(server.url, deadline_ms=50_000) as made:
        made.metadata("m")
        server.seen.clear()
        yield made


def rows(count):
    return np.arange(count * 2, dtype=np.float32).reshape(count, 2)


def sizes(server):
    """The rows of each inference that was sent."""
    requests = [(headers, body) for path, headers, body in server.seen if path.endswith("/infer")]
    return [json.loads(body[: int(headers[LENGTH])])["inputs"][0]["shape"][0] for headers, body in requests]


@pytest.mark.parametrize(("count", "wanted"), [(1, [1]), (4, [4]), (5, [4, 1]), (8, [4, 4]), (11, [4, 4, 3])])
def test_rows_are_cut_and_joined_in_their_order(server, client, count, wanted):
    np.testing.assert_array_equal(client.infer("m", rows(count), id="7")["x"], rows(count))
    assert sizes(server) == wanted


def test_a_request_stays_below_the_limit_of_bytes(server, client, monkeypatch):
    monkeypatch.setattr(inference, "REQUEST_ROWS_MAX", 1000)
    monkeypatch.setattr(inference, "REQUEST_BYTES_MAX", 40)  # five rows of two floats
    np.testing.assert_array_equal(client.infer("m", rows(12))["x"], rows(12))
    assert sizes(server) == [5, 5, 2]


def test_texts_count_by_their_length(server, client, monkeypatch):
    server.metadata["inputs"] = [{"name": "x", "datatype": "BYTES", "shape": [-1, 1]}]
    client.metadata("m")
    monkeypatch.setattr(inference, "REQUEST_BYTES_MAX", 20)  # two texts of six characters and their lengths
    assert client.infer("m", [["abcdef"]] * 4)["x"].tolist() == [["abcdef"]] * 4
    assert sizes(server) == [2, 2]


def test_whether_rows_may_be_cut_is_asked_once(server, client):
    for _ in range(3):
        client.infer("m", rows(5))
    assert [path for path, *_ in server.seen if not path.endswith("/infer")] == ["/v2/models/m/config"]


@pytest.mark.parametrize("answer", ["a model that is not batched", "a server without configurations"])
def test_rows_that_may_depend_on_each_other_stay_together(server, client, answer):
    server.metadata["max_batch_size"] = 0
    if answer == "a server without configurations":
        server.script.append(refusal(404, "no such page"))
    np.testing.assert_array_equal(client.infer("m", rows(11))["x"], rows(11))
    assert sizes(server) == [11]


def test_inputs_of_different_lengths_stay_together(server, client):
    server.metadata["inputs"] = [{"name": name, "datatype": "FP32", "shape": [-1]} for name in ("x", "y")]
    client.metadata("m")
    assert client.infer("m", {"x": np.ones(9), "y": np.ones(5)})["y"].shape == (5,)
    assert sizes(server) == [9]


def test_a_request_that_is_too_large_is_halved_and_so_are_those_after_it(server, client):
    server.script.append(TOO_LARGE)
    client.infer("m", rows(3))  # whether it may be cut is asked only now
    server.seen.clear()
    server.script.append(TOO_LARGE)
    np.testing.assert_array_equal(client.infer("m", rows(11))["x"], rows(11))
    assert sizes(server) == [4, 2, 2, 2, 2, 2, 1]


def test_one_row_that_is_too_large_is_refused(server, client):
    server.script.append(TOO_LARGE)
    with pytest.raises(errors.InvalidInputError, match="exceeds the maximum") as caught:
        client.infer("m", rows(1))
    assert caught.value.code == "body_too_large"
    assert sizes(server) == [1]


def test_an_error_names_the_rows_of_its_request(server, client):
    client.infer("m", rows(5))
    server.script.extend([lambda handler: handler.echo(server.seen[-1][2]), refusal(500, "run failed")])
    with pytest.raises(errors.ServerFaultError, match=r"^rows 4 to 7 of 11: run failed$"):
        client.infer("m", rows(11))


def test_outputs_that_have_not_a_value_for_each_row_cannot_be_joined(server, client):
    client.infer("m", rows(5))
    one = {"outputs": [{"name": "y", "datatype": "FP32", "shape": [1], "data": [1.0]}]}
    server.script.append(lambda handler: handler.answer(200, json.dumps(one).encode()))
    with pytest.raises(errors.ServerFaultError, match=r"output 'y' has the shape \[1\] for 4 rows"):
        client.infer("m", rows(11))


def decided(handler, server):
    """Answers rows with the ids that they have."""
    sent = json.loads(server.seen[-1][2])["rows"]
    answers = [{"id": row["id"], "decision_id": f"d-{row['id']}", "outcome": "pass"} for row in sent]
    handler.answer(200, json.dumps({"decision": "card", "rows": answers}).encode())


def asked(server):
    return [(headers.get("idempotency-key"), len(json.loads(body)["rows"])) for _, headers, body in server.seen]


def test_many_rows_are_decided_in_their_order_with_one_number_each(server, client):
    server.script.extend([lambda handler: decided(handler, server)] * 3)
    answers = client.decide("card", ({"amount": index} for index in range(2500)), idempotency_key="k")
    assert [row.id for row in answers] == [str(index) for index in range(2500)]
    assert asked(server) == [("k/0", 1024), ("k/1024", 1024), ("k/2048", 452)]


def test_few_rows_have_the_caller_s_own_key(server, client):
    server.script.append(lambda handler: decided(handler, server))
    client.decide("card", [{"amount": 1}], idempotency_key="k")
    assert asked(server) == [("k", 1)]


def test_decisions_whose_request_is_too_large_are_halved(server, client):
    server.script.extend([TOO_LARGE, *[lambda handler: decided(handler, server)] * 2])
    answers = client.decide_rows("card", [{"amount": index} for index in range(5)], ids=list("abcde"))
    assert [row.id for row in answers] == list("abcde")
    assert asked(server) == [(None, 5), (None, 3), (None, 2)]


def test_an_error_after_some_decisions_says_which_rows_were_decided(server, client):
    server.script.extend([lambda handler: decided(handler, server), refusal(500, "panicked")])
    with pytest.raises(errors.ServerFaultError, match=r"^rows 1024 to 2047 of 3000: panicked; rows 0 to 1023 were decided$"):
        client.decide("card", [{"amount": index} for index in range(3000)])
