"""The rules of a version's life, judged on states that were folded from events of the same rules."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flyball.errors import FlyballError
from flyball.registry.acts import rules as raising
from flyball.registry.acts.interface import APPROVER, DEPLOYER, READER, Actor, Candidate
from flyball.registry.acts.rules import Allowed, ApprovalRules, Gate, Promotion
from flyball.registry.events.event import Draft, Event, microseconds, sealed
from flyball.registry.events.state import NameState, fold
from tests.support.registry_events import digest

HOUSE = ApprovalRules(("dev", "staging", "production"), {"low": 0, "standard": 1, "high": 2})
ADA, BOB, CID = Actor("ada"), Actor("bob"), Actor("cid")
PASSED = [Gate("signatures", passed=True, words="", firm=True)]


AT = microseconds(datetime(2026, 11, 16, tzinfo=UTC))


def hint(owner: str) -> str:
    """Of somebody's key."""
    return digest(owner).removeprefix("sha256:")


class _Rules:
    """The rules with a refusal as a value, so that a story can go on after it."""

    def __getattr__(self, name: str) -> Any:
        rule = getattr(raising, name)

        def judge(*args: Any, **named: Any) -> Any:
            try:
                return rule(*args, **named)
            except FlyballError as refusal:
                return refusal

        return judge if callable(rule) else rule


rules = _Rules()


class Story:
    """A name, act by act."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.state = NameState("fraud")

    def then(self, judged: Allowed | FlyballError) -> Allowed | FlyballError:
        if isinstance(judged, Allowed):
            place = len(self.events) + 1
            draft = Draft("fraud", judged.kind, judged.body, "ada", "because")
            event = sealed(draft, sequence=place, revision=place, at=AT, previous="")
            self.events.append(event)
            self.state = self.state.after(event)
        return judged

    def register(self, tier: str = "standard") -> int:
        number = self.state.next_number
        package = {"root": digest(f"root {number}"), "manifest": digest("m"), "meta": digest("n"), "tier": tier}
        package |= {"author": "ada", "kind": "model", "references": []}
        assert isinstance(self.then(rules.register(self.state, ADA, package)), Allowed)
        return number

    def sign(self, number: int) -> Allowed | FlyballError:
        said = {"bundle": digest("b"), "release": digest(f"r{len(self.events)}"), "key": hint("ada"), "name": "ada"}
        return self.then(rules.sign(self.state, ADA, number, said))

    def approve(self, number: int, who: str = "bob", key: str | None = None) -> Allowed | FlyballError:
        said = {"key": key or hint(who), "approver": who, "signature": "s", "environments": ["dev"]}
        return self.then(rules.approve(self.state, HOUSE, Actor(who), number, said))

    def promote(self, number: int, to: str, **said: Any) -> Allowed | FlyballError:
        evidence = said.pop("evidence", PASSED)
        asked = Promotion(number, to, **said)
        return self.then(rules.promote(self.state, HOUSE, ADA, asked, evidence))

    def ready(self, tier: str = "standard") -> int:
        number = self.register(tier)
        self.sign(number)
        for who in ("bob", "cid")[: int(HOUSE.needed(tier))]:
            self.approve(number, who)
        return number

    def everywhere(self, number: int) -> None:
        for environment in HOUSE.environments:
            assert isinstance(self.promote(number, environment), Allowed)

    def rollback(
        self, environment: str = "production", to: int | None = None, unfit: dict[int, str] | None = None
    ) -> Allowed | FlyballError:
        """`unfit`: the versions that servers would refuse, and why."""
        found = unfit or {}
        return self.then(
            rules.rollback(self.state, HOUSE, ADA, environment, unfit=lambda version: found.get(version.number), to=to)
        )


def code(judged: Any) -> str:
    assert isinstance(judged, FlyballError), judged
    return judged.code


def test_an_author_cannot_approve_by_name_by_key_or_by_another_key_of_theirs() -> None:
    story = Story()
    number = story.register()
    story.sign(number)
    assert code(story.approve(number, "ada")) == "own_approval"
    assert code(story.approve(number, "ADA")) == "own_approval"
    assert code(story.approve(number, "bob", key=hint("ada"))) == "own_approval"
    by_another = {"key": "k2", "approver": "ada", "signature": "s", "environments": ["dev"]}
    bob = Actor("bob", authenticated="api-key")  # who hands in a signature of somebody else's key
    assert code(rules.approve(story.state, HOUSE, bob, number, by_another)) == "own_approval"
    assert isinstance(story.approve(number, "bob"), Allowed)


def test_one_person_approves_once_whatever_the_number_of_their_keys() -> None:
    story = Story()
    number = story.register("high")
    story.sign(number)
    assert isinstance(story.approve(number, "bob"), Allowed)
    assert code(story.approve(number, "bob")) == "approved_already"
    assert code(story.approve(number, "Bob", key="another")) == "approved_already"


@pytest.mark.parametrize(("tier", "needed"), [("low", 0), ("standard", 1), ("high", 2)])
def test_a_tier_says_how_many_must_approve(tier: str, needed: int) -> None:
    story = Story()
    number = story.register(tier)
    story.sign(number)
    for place in range(needed):
        assert code(story.promote(number, "dev")) == "approvals_missing"
        story.approve(number, ("bob", "cid")[place])
    assert isinstance(story.promote(number, "dev"), Allowed)


def test_signing_again_voids_approvals_of_the_release_before() -> None:
    story = Story()
    number = story.ready()
    story.sign(number)
    assert code(story.promote(number, "dev")) == "approvals_missing"
    story.approve(number)
    assert isinstance(story.promote(number, "dev"), Allowed)


def test_what_was_rejected_is_promoted_only_once_it_is_signed_and_approved_anew() -> None:
    story = Story()
    number = story.ready()
    story.then(rules.reject(story.state, BOB, number, "biased"))
    assert code(story.promote(number, "dev")) == "rejected"
    story.sign(number)
    story.approve(number)
    assert isinstance(story.promote(number, "dev"), Allowed)


def test_environments_are_passed_in_their_order_unless_the_glass_is_broken_for_a_reason() -> None:
    story = Story()
    number = story.ready()
    assert code(story.promote(number, "production")) == "out_of_order"
    assert code(story.promote(number, "production", break_glass=True)) == "reason_missing"
    broken = story.promote(number, "production", break_glass=True, reason="the old one rejects everybody")
    assert isinstance(broken, Allowed)
    assert broken.body["break_glass"] is True


def test_breaking_the_glass_passes_soft_gates_and_never_firm_ones() -> None:
    story = Story()
    number = story.ready()
    overdue = Gate("validation", passed=False, words="its validation was due on 2026-01-01")
    unsigned = Gate("signatures", passed=False, words="unsigned: no", firm=True)
    assert code(story.promote(number, "dev", evidence=[*PASSED, overdue])) == "gate_refused"
    glass = {"break_glass": True, "reason": "an outage"}
    assert code(story.promote(number, "dev", evidence=[unsigned, overdue], **glass)) == "gate_refused"
    passed = story.promote(number, "dev", evidence=[*PASSED, overdue], **glass)
    assert isinstance(passed, Allowed)
    assert [gate["passed"] for gate in passed.body["evidence"]] == [True, False]


def test_rollback_goes_back_one_by_one_and_never_to_what_was_revoked() -> None:
    story = Story()
    first, second, third = story.ready(), story.ready(), story.ready()
    for number in (first, second, third):
        story.everywhere(number)
    assert story.rollback().body == {"environment": "production", "version": second, "from": third}  # type: ignore[union-attr]
    story.then(rules.revoke(story.state, ADA, first, "trained on the wrong month"))
    assert code(story.rollback()) == "nothing_before"
    assert code(story.rollback(to=first)) == "would_be_refused"
    assert code(story.rollback(to=third)) == "never_placed"


def test_a_version_that_was_rolled_back_from_staging_does_not_reach_production() -> None:
    story = Story()
    first, second = story.ready(), story.ready()
    story.everywhere(first)
    story.promote(second, "dev")
    story.promote(second, "staging")
    story.rollback("staging")
    assert code(story.promote(second, "production")) == "out_of_order"


def test_rollback_passes_over_what_servers_would_refuse() -> None:
    story = Story()
    first, second, third, fourth = (story.ready() for _ in range(4))
    for number in (first, second, third, fourth):
        story.everywhere(number)
    assert isinstance(story.sign(third), Allowed)
    assert isinstance(story.then(rules.reject(story.state, BOB, second, "it leaks")), Allowed)
    assert code(story.rollback(to=third)) == "would_be_refused"
    passed_over = [
        {"version": third, "why": "0 of 1 person other than the author approved it (tier standard)"},
        {"version": second, "why": "rejected: it leaks"},
    ]
    judged = story.rollback()
    assert isinstance(judged, Allowed)
    assert judged.body == {"environment": "production", "version": first, "from": fourth, "passed_over": passed_over}


def test_rollback_passes_over_releases_that_have_ended_and_says_so_where_none_is_left() -> None:
    story = Story()
    first, second, third = (story.ready() for _ in range(3))
    for number in (first, second, third):
        story.everywhere(number)
    ended = "expired: the release ended on 2026-11-15T00:00:00Z"
    refusal = story.rollback(unfit={first: ended, second: ended})
    assert isinstance(refusal, FlyballError)
    assert refusal.code == "nothing_before"
    assert refusal.message == f"production cannot go back from fraud@3: fraud@2 ({ended}); fraud@1 ({ended})"
    refusal = story.rollback(to=second, unfit={second: ended})
    assert isinstance(refusal, FlyballError)
    assert (refusal.code, refusal.message) == ("would_be_refused", f"production cannot go back to fraud@2: {ended}")
    judged = story.rollback(unfit={second: ended})
    assert isinstance(judged, Allowed)
    assert (judged.body["version"], judged.body["passed_over"]) == (first, [{"version": second, "why": ended}])


def test_rollback_looks_at_so_many_versions_and_no_more() -> None:
    story = Story()
    numbers = [story.ready() for _ in range(rules.PASSED_OVER_MAX + 2)]
    for number in numbers:
        story.everywhere(number)
    looked_at = []
    refusal = rules.rollback(
        story.state, HOUSE, ADA, "production", unfit=lambda version: looked_at.append(version.number) or "expired"
    )
    assert isinstance(refusal, FlyballError)
    assert looked_at == numbers[-2 : -rules.PASSED_OVER_MAX - 2 : -1]
    assert refusal.message.endswith("; and 29 more")


def test_what_serves_is_not_signed_anew_for_its_approvals_would_be_void() -> None:
    story = Story()
    number = story.ready()
    story.everywhere(number)
    assert code(story.sign(number)) == "still_placed"


def test_rollback_takes_a_candidate_away_before_it_touches_the_champion() -> None:
    story = Story()
    first, second = story.ready(), story.ready()
    story.everywhere(first)
    story.promote(second, "dev")
    story.promote(second, "staging")
    assert isinstance(story.promote(second, "production", candidate=Candidate(0.1, shadow=False)), Allowed)
    assert story.state.placements["production"].candidate is not None
    assert story.rollback().body == {"environment": "production", "version": first, "from": second}  # type: ignore[union-attr]
    assert story.state.placements["production"].candidate is None
    assert code(story.rollback()) == "nothing_before"


@pytest.mark.parametrize("candidate", [Candidate(0.0), Candidate(1.5), Candidate(-0.1)])
def test_a_candidate_without_a_share_or_beyond_the_whole_is_refused(candidate: Candidate) -> None:
    story = Story()
    first, second = story.ready(), story.ready()
    story.everywhere(first)
    story.promote(second, "dev")
    story.promote(second, "staging")
    assert code(story.promote(second, "production", candidate=candidate)) == "bad_share"


def test_a_candidate_needs_another_version_to_be_tried_against() -> None:
    story = Story()
    number = story.ready()
    assert code(story.promote(number, "dev", candidate=Candidate(0.5))) == "no_champion"


def test_revoking_what_serves_must_be_meant_and_ends_every_other_act() -> None:
    story = Story()
    number = story.ready()
    story.promote(number, "dev")
    assert code(rules.revoke(story.state, ADA, number, "bad")) == "still_placed"
    story.then(rules.revoke(story.state, ADA, number, "bad", stop=True))
    assert code(story.promote(number, "dev")) == "revoked"
    assert code(story.approve(number, "cid")) == "revoked"
    assert code(story.sign(number)) == "revoked"
    assert code(rules.alias(story.state, HOUSE, ADA, "champion", number)) == "revoked"


def test_what_serves_or_has_an_alias_is_not_retired() -> None:
    story = Story()
    number = story.ready()
    story.promote(number, "dev")
    assert code(rules.retire(story.state, ADA, number)) == "still_placed"
    other = story.ready()
    story.then(rules.alias(story.state, HOUSE, ADA, "champion", other))
    assert code(rules.retire(story.state, ADA, other)) == "aliased"
    story.then(rules.alias(story.state, HOUSE, ADA, "champion", None))
    assert isinstance(rules.retire(story.state, ADA, other), Allowed)


@pytest.mark.parametrize("alias", ["production", "7", "Champion", "a" * 65, "", "../x"])
def test_an_alias_is_no_environment_no_number_and_no_path(alias: str) -> None:
    story = Story()
    assert code(rules.alias(story.state, HOUSE, ADA, alias, story.register())) == "bad_alias"


@pytest.mark.parametrize("role", [READER, APPROVER])
def test_only_deployers_promote(role: str) -> None:
    story = Story()
    number = story.ready()
    reader = Actor("eve", frozenset({role}))
    asked = Promotion(number, "dev")
    assert code(rules.promote(story.state, HOUSE, reader, asked, PASSED)) == "forbidden"


def test_only_approvers_approve() -> None:
    story = Story()
    number = story.register()
    story.sign(number)
    said = {"key": "ke", "approver": "eve", "signature": "s", "environments": ["dev"]}
    assert code(rules.approve(story.state, HOUSE, Actor("eve", frozenset({DEPLOYER})), number, said)) == "forbidden"


def test_the_same_files_are_not_registered_twice() -> None:
    story = Story()
    number = story.register()
    version = story.state.versions[number]
    package = {"root": version.root, "manifest": "m", "tier": "low", "author": "bob", "kind": "model"}
    assert code(rules.register(story.state, BOB, package)) == "already_registered"


def acts() -> st.SearchStrategy[list[tuple[str, int, str]]]:
    names = ["register", "sign", "approve", "reject", "promote", "try", "rollback", "alias", "revoke", "retire"]
    who = st.sampled_from(["ada", "bob", "cid"])
    return st.lists(st.tuples(st.sampled_from(names), st.integers(1, 4), who), max_size=60)


@given(acts(), st.lists(st.sampled_from(HOUSE.environments), min_size=60, max_size=60))
def test_whatever_people_try_what_serves_was_signed_approved_by_others_and_is_not_revoked(
    asked: list[tuple[str, int, str]], environments: list[str]
) -> None:
    story = Story()
    for (act, number, who), environment in zip(asked, environments, strict=False):
        before = story.state
        if act == "register":
            story.register(("low", "standard", "high")[number % 3])
        elif act == "sign":
            story.sign(number)
        elif act == "approve":
            story.approve(number, who)
        elif act in ("promote", "try"):
            judged = story.promote(number, environment, candidate=Candidate(0.2) if act == "try" else None)
            if isinstance(judged, Allowed):
                _check_promoted(before, story.events[:-1], number, environment)
        elif act == "rollback":
            story.rollback(environment)
        else:
            judge = {
                "reject": lambda: rules.reject(before, Actor(who), number, "no"),  # noqa: B023 - called at once
                "alias": lambda: rules.alias(before, HOUSE, ADA, "champion", number),  # noqa: B023
                "revoke": lambda: rules.revoke(before, ADA, number, "bad"),  # noqa: B023
                "retire": lambda: rules.retire(before, ADA, number),  # noqa: B023
            }
            story.then(judge[act]())
        assert fold("fraud", story.events) == story.state
        for placement in story.state.placements.values():
            assert story.state.versions[placement.version].revoked is None
            assert not story.state.versions[placement.version].retired


def _check_promoted(state: NameState, events: list[Event], number: int, environment: str) -> None:
    """By the events alone, without the rules: since it was last signed enough others approved, and nobody said no."""
    of_it = [event for event in events if event.body.get("version") == number]
    signed = max(place for place, event in enumerate(of_it) if event.kind == "signed")
    people = {event.body["approver"] for event in of_it[signed:] if event.kind == "approved"}
    assert len(people - {"ada"}) >= HOUSE.needed(state.versions[number].tier)
    assert not {"rejected"} & {event.kind for event in of_it[signed:]}
    assert not {"revoked", "retired"} & {event.kind for event in of_it}
    place = HOUSE.environments.index(environment)
    if place:
        earlier = HOUSE.environments[place - 1]
        served = [event for event in events if event.body.get("environment") == earlier]
        about = [event for event in served if number in (event.body["version"], event.body.get("from"))]
        assert any(event.kind == "promoted" and event.body["version"] == number for event in about)


def test_without_a_trust_policy_one_goes_back_to_what_stands_as_it_was_placed() -> None:
    story, unknown = Story(), ApprovalRules(HOUSE.environments, None)
    first, second, third = story.ready(), story.ready(), story.ready()
    for number in (first, second, third):
        story.everywhere(number)
    story.approve(first, "cid")
    story.sign(second)
    judged = rules.rollback(story.state, unknown, ADA, "production", unfit=lambda _: None)
    assert isinstance(judged, Allowed)
    assert judged.body["version"] == first
    asked = Promotion(first, "production")
    refusal = rules.promotable(story.state, unknown, ADA, asked)
    assert isinstance(refusal, FlyballError)
    assert "which cannot be read" in str(refusal.next_step)


def test_the_state_knows_the_last_event_about_a_version_and_about_a_place() -> None:
    story = Story()
    first = story.ready()
    story.everywhere(first)
    placed, changed = story.state.placements["production"].sequence, story.state.versions[first].changed
    assert (placed, changed) == (len(story.events), 3)
    story.ready()
    assert (story.state.placements["production"].sequence, story.state.versions[first].changed) == (placed, changed)
