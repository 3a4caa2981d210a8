"""A client remembers a model's metadata. After a reload with other inputs it asks again, and repeats the call once."""

import numpy as np
import pytest

from flyball import Client, errors
from tests.support.v2_server import V2Server, refusal

WRONG_TYPE = refusal(400, "inference input 'x' data-type is 'FP32', but model 'm' expects 'FP64'")


def described(datatype, *shape):
    return [{"name": "x", "datatype": datatype, "shape": list(shape)}]


@pytest.fixture
def server():
    with V2Server() as running:
        running.metadata["inputs"] = described("FP32", -1, 2)
        yield running


@pytest.fixture
def client(server):
    """It has asked for the metadata of the model m before the reload."""
    with Client(server.url, deadline_ms=5000) as made:
        made.metadata("m")
        server.seen.clear()
        yield made


def paths(server):
    return [path.removeprefix("/v2/models/m") for path, *_ in server.seen]


def test_inputs_of_another_type_are_sent_again_in_the_new_one(server, client):
    server.metadata["inputs"] = described("FP64", -1, 2)
    server.script.append(WRONG_TYPE)
    assert client.infer("m", {"x": [[1, 2]]})["x"].dtype == np.float64
    assert paths(server) == ["/infer", "", "/infer"]


def test_inputs_that_only_the_old_model_would_refuse_are_sent(server, client):
    server.metadata["inputs"] = described("FP32", -1, 3)
    assert client.infer("m", [[1, 2, 3]])["x"].shape == (1, 3)
    assert paths(server) == ["", "/infer"]


def test_a_generator_survives_the_repetition(server, client):
    server.metadata["inputs"] = described("FP64", -1, 2)
    server.script.append(WRONG_TYPE)
    assert client.infer("m", (row for row in [[1, 2]]))["x"].tolist() == [[1.0, 2.0]]


def test_inputs_that_the_new_model_refuses_too_say_what_has_changed(server, client):
    server.metadata["inputs"] = described("FP32", -1, 3)
    server.script.append(refusal(400, "unexpected shape"))
    with pytest.raises(errors.InvalidInputError, match=r"got \[1,2\].* the model has changed since.*x FP32 \[-1,2\]"):
        client.infer("m", [[1, 2]])


def test_a_refusal_by_the_same_model_is_raised_as_it_is_and_nothing_is_sent_again(server, client):
    server.script.append(refusal(400, "not today"))
    with pytest.raises(errors.InvalidInputError, match=r"^not today$"):
        client.infer("m", [[1, 2]])
    assert paths(server) == ["/infer", ""]


def test_a_server_that_no_longer_describes_the_model_leaves_the_first_refusal(server, client):
    server.script.extend([refusal(400, "not today"), refusal(503, "draining")])
    with pytest.raises(errors.InvalidInputError, match=r"^not today$"):
        client.infer("m", [[1, 2]])


def test_metadata_of_this_very_call_is_not_asked_twice(server):
    with Client(server.url) as client, pytest.raises(errors.InvalidInputError, match="unexpected shape"):
        client.infer("m", [[1, 2, 3]])
    assert paths(server) == [""]


def test_versions_are_remembered_apart(server):
    with Client(server.url) as client:
        for version in (None, 1, "1", 2):
            client.infer("m", [[1, 2]], version=version)
    assert [path for path in paths(server) if not path.endswith("infer")] == ["", "/versions/1", "/versions/2"]
