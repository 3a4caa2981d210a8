"""Who may do what: every role and every act, over HTTP and in the registry itself, which must agree."""

from collections.abc import Iterator
from typing import Any

import pytest

from flyball.errors import FlyballError, ForbiddenError
from flyball.registry.acts.interface import READS, ROLES, ROLES_OF, Actor, Candidate
from flyball.registry.local import LocalRegistry
from tests.support import registry_homes

# The table of docs/reference/admin-api.md, written out once more: a slip in the code's own must not go unseen.
MAY = {
    "read": "reader deployer approver auditor",
    "events": "auditor",
    "verify": "auditor",
    "register": "deployer",
    "import": "deployer",
    "sign": "deployer",
    "approve": "approver",
    "reject": "approver",
    "promote": "deployer",
    "rollback": "deployer",
    "alias": "deployer",
    "revoke": "deployer approver",
    "retire": "deployer",
    "forget": "deployer",
}
_REASONED = {"version": "9", "reason": "because"}
REQUESTS: dict[str, list[tuple[str, str, Any]]] = {
    "read": [
        ("GET", path, None)
        for path in (
            "/v1/whoami", "/v1/head", "/v1/registry", "/v1/registry/fraud", "/v1/registry/fraud/versions/1",
            "/v1/registry/fraud/versions/1/release", "/v1/registry/fraud/versions/1/bundle",
            "/v1/registry/fraud/versions/1/statement", "/v1/registry/fraud/versions/1/package",
            "/v1/registry/fraud/history", "/v1/at?time=2026-11-16T00:00:00Z", "/v1/status",
        )
    ],
    "events": [("GET", "/v1/events", None)],
    "verify": [("GET", "/v1/verify", None)],
    "register": [("POST", "/v1/registry/fraud/register", b"")],
    "import": [("POST", "/v1/import", b"")],
    "sign": [("POST", "/v1/registry/fraud/sign", {"version": "1", "bundle": {}, "release": {}})],
    "approve": [("POST", "/v1/registry/fraud/approve", {"version": "1", "signature": "A" * 96, "key": "0" * 64})],
    "reject": [("POST", "/v1/registry/fraud/reject", _REASONED)],
    "promote": [("POST", "/v1/registry/fraud/promote", {"version": "1", "environment": "nowhere"})],
    "rollback": [("POST", "/v1/registry/fraud/rollback", {"environment": "nowhere"})],
    "alias": [("POST", "/v1/registry/fraud/alias", {"alias": "production", "version": 1})],
    "revoke": [("POST", "/v1/registry/fraud/revoke", _REASONED)],
    "retire": [("POST", "/v1/registry/fraud/retire", {"version": "9"})],
    "forget": [("POST", "/v1/nodes/forget", {"node": "nobody"})],
}  # fmt: skip


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[registry_homes.Admin]:
    house = registry_homes.make(tmp_path_factory.mktemp("roles"))
    with house.opened() as registry:
        registry.promote(house.approved(registry), "dev", actor=Actor("ada"))
    with registry_homes.admin(house) as running:
        yield running


def test_the_table_of_the_code_is_the_one_that_is_promised() -> None:
    assert {act: frozenset(roles.split()) for act, roles in MAY.items()} == ROLES_OF
    assert REQUESTS.keys() == ROLES_OF.keys()


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("act", MAY)
def test_a_role_may_do_what_the_table_says_and_nothing_else(api: registry_homes.Admin, act: str, role: str) -> None:
    for method, path, body in REQUESTS[act]:
        answer = api.ask(method, path, role=role, body=body)
        if role in MAY[act].split():
            assert answer.status not in (401, 403), answer.body
            assert answer.status < 500
        else:
            assert (answer.status, answer.document["code"]) == (403, "forbidden")
            assert f"{role} may not {act}" in answer.document["detail"]
            assert "flyball registry key add" in answer.document["next"]


@pytest.mark.parametrize("act", [act for act in MAY if act != "read"])
def test_whoever_is_refused_is_an_event_with_who_and_why(api: registry_homes.Admin, act: str) -> None:
    method, path, body = REQUESTS[act][0]
    before = api.ask("GET", "/v1/head", role="reader").document["sequence"]
    assert api.ask(method, path, role="reader", body=body).status == 403
    (event,) = api.ask("GET", f"/v1/events?after={before}", role="auditor").document["events"]
    assert (event["kind"], event["actor"]) == ("refused", "reader")
    assert (event["body"]["act"], event["body"]["code"]) == (act, "forbidden")
    assert "reader may not" in event["body"]["words"]


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("act", sorted(ROLES_OF.keys() - READS))
def test_the_registry_itself_holds_people_to_the_same_table(api: registry_homes.Admin, act: str, role: str) -> None:
    forbidden = False
    with api.house.opened() as registry:
        try:
            _do(registry, act, Actor("somebody", frozenset({role})), api.house)
        except ForbiddenError:
            forbidden = True
        except FlyballError:
            pass  # refused for another reason, so not for the role
    assert forbidden == (role not in MAY[act].split())


def _do(registry: LocalRegistry, act: str, actor: Actor, house: registry_homes.House) -> None:
    """The act, in a form that no role gets through."""
    version = registry.handle.find("fraud@1")[1]
    acts = {
        "register": lambda: registry.register(house.package("fraud", 1), "fraud", actor=actor),
        "import": lambda: registry.import_file(house.folder / "no such file", actor=actor),
        "sign": lambda: registry.sign(
            "fraud@1", bundle=registry.bundle("fraud@1"), release=registry.release("fraud@1"), actor=actor
        ),
        "approve": lambda: registry.approve(
            "fraud@1", signature=version.approvals[0].signature, key=version.approvals[0].key, actor=actor
        ),
        "reject": lambda: registry.reject("fraud@1", actor=actor, reason=" "),
        "promote": lambda: registry.promote("fraud@1", "nowhere", actor=actor, candidate=Candidate(0.5)),
        "rollback": lambda: registry.rollback("fraud", "nowhere", actor=actor),
        "alias": lambda: registry.alias("fraud", "production", 1, actor=actor),
        "revoke": lambda: registry.revoke("fraud@1", actor=actor, reason=""),
        "retire": lambda: registry.retire("fraud@1", actor=actor),
        "forget": lambda: registry.forget("nobody", actor=actor),
    }
    acts[act]()
