"""The admin API's OpenAPI document against the server that serves it: schemathesis makes the requests, and every answer must
be one that the document has.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from flyball.control.admin.app import admin_app
from flyball.registry.acts.interface import ROLES, Actor
from flyball.registry.remote.registry import BUNDLE_TYPE
from tests.support import registry_homes

CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance, unsupported_method]


class Nobody:
    """A registry that is never asked: only the document is made from it."""

    def keys(self) -> list[Any]:
        return []


def known_names(document: dict[str, Any]) -> dict[str, Any]:
    """Half of the names and versions are there: refusals are not all that is checked."""
    for path in document["paths"].values():
        for operation in path.values():
            for parameter in operation.get("parameters", []):
                known = {"name": "fraud", "version": "1"}.get(parameter["name"])
                if known is not None and parameter["in"] == "path":
                    parameter["schema"] = {"anyOf": [{"const": known}, parameter["schema"]]}
    return document


document = admin_app(Nobody()).openapi()  # type: ignore[arg-type]
schema = schemathesis.openapi.from_dict(known_names(document))


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[registry_homes.Admin]:
    house = registry_homes.make(tmp_path_factory.mktemp("openapi"))
    with house.opened() as registry:
        house.tokens["everything"] = registry.add_key("everything", ROLES, actor=Actor("owner"))
        registry.promote(house.approved(registry), "dev", actor=Actor("ada"))
        registry.promote(house.approved(registry, seed=2), "dev", actor=Actor("ada"))
    with registry_homes.admin(house) as running:
        yield running


@schemathesis.serializer("application/x-tar", BUNDLE_TYPE)
def whatever(_context: Any, value: Any) -> bytes:
    """What is uploaded is bytes, and these are any bytes at all."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


@schema.parametrize()
def test_every_answer_is_one_that_the_document_has(case: Any, api: registry_homes.Admin) -> None:
    response = case.call(base_url=api.url, headers={"authorization": f"Bearer {api.house.tokens['everything']}"})
    case.validate_response(response, checks=CHECKS)
    assert response.status_code != 500, response.text


@schema.parametrize()
@settings(max_examples=4)
def test_a_stranger_learns_nothing_but_that_a_key_is_wanted(case: Any, api: registry_homes.Admin) -> None:
    response = case.call(base_url=api.url)
    case.validate_response(response, checks=CHECKS)
    if case.operation.path != "/live":
        assert response.status_code in (400, 401, 404, 405, 413, 422)


def test_the_document_is_served_as_it_is_made(api: registry_homes.Admin) -> None:
    assert api.ask("GET", "/openapi.json").document["info"] == document["info"]


def test_every_operation_and_every_field_is_described() -> None:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation.get("summary"), f"{method} {path}"
            assert operation.get("description"), f"{method} {path}"
            if path != "/live":
                assert operation["security"], f"{method} {path} wants no key"
    bodies = [name for name in document["components"]["schemas"] if name.endswith("Body")]
    assert len(bodies) >= 8
    for name in bodies:
        assert document["components"]["schemas"][name].get("description"), name


def test_every_refusal_has_the_one_form() -> None:
    problem = {"$ref": "#/components/schemas/Problem"}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for status, answer in operation["responses"].items():
                if int(status) >= 400:
                    assert answer["content"] == {"application/problem+json": {"schema": problem}}, (
                        f"{method} {path} {status}"
                    )
