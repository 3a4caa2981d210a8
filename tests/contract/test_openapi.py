"""The OpenAPI document against the server that serves it: schemathesis makes the requests, and every answer must be one
that the document has.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from tests.support import card_decision, serving, snapshots
from tests.support.serving import REPOSITORY, Server
from tests.support.wire import Http

DOCUMENT = REPOSITORY / "crates/server/src/http/openapi.json"
CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance, unsupported_method]


@pytest.fixture(scope="module")
def server(model: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("openapi")
    config = folder / "config.json"
    settings = {"listen": ["127.0.0.1:0"], "allow_model_control": True, "allow_shared_memory": True,
                "journal_folder": str(folder / "journal")}  # fmt: skip
    config.write_text(json.dumps(settings))
    documents = [
        snapshots.deployment("linear", model("linear")),
        snapshots.deployment("card", model("linear"), decision=card_decision.CARD),
    ]
    index = snapshots.write(folder / "snapshot", 1, documents)
    with serving.serving([*serving.flyballd(), "--snapshot", str(index), "--config", str(config)]) as running:
        yield running


def known_names(document: dict[str, Any]) -> dict[str, Any]:
    """Half of the names are there and half of the rows are good: refusals are not all that is checked."""
    parameters = document["components"]["parameters"]
    for name, known in (("Model", "linear"), ("Version", "1"), ("Decision", "card")):
        any_name = parameters[name]["schema"]
        parameters[name]["schema"] = {"anyOf": [{"const": known}, any_name]}
    request = document["components"]["schemas"]["DecideRequest"]["properties"]
    for holder in (request, request["rows"]["items"]["properties"]):
        holder["input"] = {"anyOf": [{"const": card_decision.GOOD}, holder["input"]]}
    return document


schema = schemathesis.openapi.from_dict(known_names(json.loads(DOCUMENT.read_text())))


@schema.parametrize()
def test_every_answer_is_one_that_the_document_has(case: Any, server: Server) -> None:
    response = case.call(base_url=server.url)
    case.validate_response(response, checks=CHECKS)
    # Others of that kind are refusals: what is not offered, what was unloaded by a case before, a deadline of no time.
    assert response.status_code != 500


def test_the_document_is_served_as_it_is_kept(server: Server) -> None:
    with Http(server) as connection:
        assert connection.get("/openapi.json").body == DOCUMENT.read_bytes()


def test_the_document_has_the_version_of_the_build() -> None:
    version = re.search(r'^version = "(.+)"', (REPOSITORY / "Cargo.toml").read_text(), re.MULTILINE)
    assert version is not None
    assert json.loads(DOCUMENT.read_text())["info"]["version"] == version[1]


def test_texts_are_taken_up_to_the_length_that_the_document_has(server: Server) -> None:
    most = json.loads(DOCUMENT.read_text())["components"]["schemas"]["Override"]["properties"]["why"]["maxLength"]
    told = {"id": "0192f6c1-2345-7fff-bfff-ffffffffffff", "decision": "card", "outcome": "pass", "by": "ana"}
    with Http(server) as connection:
        for length, status in ((most, 200), (most + 1, 400)):
            assert connection.post("/v1/overrides", json.dumps({**told, "why": "x" * length}).encode()).status == status


def test_erasures_and_holds_name_the_right_that_the_server_demands() -> None:
    paths = json.loads(DOCUMENT.read_text())["paths"]
    of_them = [paths["/v1/erasures"], paths["/v1/holds"], paths["/v1/holds/{name}"]]
    summaries = [operation["summary"] for path in of_them for operation in path.values() if "summary" in operation]
    assert len(summaries) == 4
    assert all(summary.endswith("Needs the right `erase`.") for summary in summaries)
