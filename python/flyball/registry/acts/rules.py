"""The rules of the registry: from a name's state and an act to an event's body, or a refusal as an error.

Pure: no store, no clock, no keys. `flyball.signing` verifies signatures before, and every server again; these rules enforce
roles, approvals and the order of environments.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flyball.errors import ForbiddenError, GateRefusedError, NotFoundError
from flyball.registry.acts.interface import ROLES_OF

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from flyball.registry.acts.interface import Actor, Candidate
    from flyball.registry.events.state import NameState, Version

VERSIONS_MAX = 99_999
"""Limit per name. Callers see nine digits at most, and a model's position may precede the number."""
PASSED_OVER_MAX = 32
"""Versions that a rollback considers, newest first."""
_PASSED_OVER_TOLD = 3
_ALIAS = re.compile(r"[a-z][a-z0-9._-]{0,63}")
_TIERS = ("low", "standard", "high")


@dataclass(frozen=True, slots=True)
class ApprovalRules:
    """Rules for all names: the order of environments, and the approvals per tier."""

    environments: tuple[str, ...]
    approvals: Mapping[str, int] | None
    """None if the trust policy is unreadable or expired."""

    def needed(self, tier: str) -> float:
        """Required approvals by people other than the author; infinite if unknown."""
        if self.approvals is None:
            return math.inf
        return self.approvals.get(tier, max(self.approvals.values(), default=2))


@dataclass(frozen=True, slots=True)
class Allowed:
    """An event to append."""

    kind: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Gate:
    """The result of one gate. Breaking the glass cannot skip a `firm` one: servers check it again."""

    gate: str
    passed: bool
    words: str
    firm: bool = False
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """The form stored in the event."""
        return {"gate": self.gate, "passed": self.passed, "words": self.words, "evidence": dict(self.evidence)}


@dataclass(frozen=True, slots=True)
class Promotion:
    """A requested promotion."""

    version: int
    environment: str
    candidate: Candidate | None = None
    break_glass: bool = False
    reason: str = ""


def register(state: NameState, actor: Actor, package: Mapping[str, Any]) -> Allowed:
    """Register the next version; `package` is the event's body without the number."""
    _check_role(actor, "register")
    if package["tier"] not in _TIERS:
        raise _refused("unknown_tier", f"{package['tier']!r} is not a tier", f"one of {', '.join(_TIERS)}")
    for version in state.versions.values():
        if version.root == package["root"]:
            raise _refused("already_registered", f"these files are registered already, as {state.name}@{version.number}")
    if state.next_number > VERSIONS_MAX:
        raise _refused("too_many_versions", f"{state.name} has {VERSIONS_MAX} versions, the maximum")
    return Allowed("registered", {"version": state.next_number, **package})


def sign(state: NameState, actor: Actor, number: int, signature: Mapping[str, Any]) -> Allowed:
    """Sign a version; `signature` has the digests of bundle and release, and the key's hint and name."""
    _check_role(actor, "sign")
    _living(state, number)
    _check_owner(actor, signature["name"])
    if placed := state.placed(number):
        raise _serves(state, number, placed, "signing it again would void its approvals")
    return Allowed("signed", {"version": number, **signature})


def approve(
    state: NameState, approval_rules: ApprovalRules, actor: Actor, number: int, approval: Mapping[str, Any]
) -> Allowed:
    """Approve a version; `approval` has environments, the key's hint, the signature and the key's name as approver."""
    _check_role(actor, "approve")
    version = _living(state, number)
    ref, approver = f"{state.name}@{number}", approval["approver"]
    if version.release is None:
        raise _refused(
            "not_signed", f"{ref} is not signed, so there is nothing to approve", f"flyball sign {ref} --key FILE"
        )
    _check_owner(actor, approver)
    # An operating system user may run the command for the key's owner; a given name or an API key identifies a person.
    theirs = {person(approver)} if actor.authenticated == "os-user" else {person(actor.name), person(approver)}
    if approval["key"] == version.signer_key or theirs & {person(version.author), person(version.signer or "")}:
        people = " and ".join(sorted({version.author, version.signer or version.author}))
        raise _refused(
            "own_approval",
            f"{ref} is by {people}; authors do not approve their own versions",
            f"{_needed(approval_rules, version)} other than the author must",
        )
    if any(approval["key"] == other.key or person(approver) == person(other.approver) for other in version.approvals):
        raise _refused("approved_already", f"{approver} has approved {ref} already", _still_needed(approval_rules, version))
    return Allowed("approved", {"version": number, **approval})


def reject(state: NameState, actor: Actor, number: int, why: str) -> Allowed:
    """Reject a version and void its approvals; signing again reopens it."""
    _check_role(actor, "reject")
    _living(state, number)
    if not why.strip():
        raise _refused("reason_missing", "a rejection says why", f'flyball reject {state.name}@{number} --reason "…"')
    if placed := state.placed(number):
        raise _serves(state, number, placed, "rejecting it would change nothing")
    return Allowed("rejected", {"version": number, "why": why})


def promotable(state: NameState, approval_rules: ApprovalRules, actor: Actor, asked: Promotion) -> None:
    """Check a promotion before the gates run, which may take minutes."""
    _check_role(actor, "promote")
    version = _living(state, asked.version)
    _check_environment(approval_rules, asked.environment)
    _check_glass(state, asked)
    ref = f"{state.name}@{asked.version}"
    if version.rejected is not None:
        raise _refused("rejected", f"{ref} was rejected: {version.rejected}", "register a better one, or sign it again")
    if version.release is None:
        raise _refused("not_signed", f"{ref} is not signed", f"flyball sign {ref} --key FILE")
    if len(version.approvals) < approval_rules.needed(version.tier):
        raise _refused("approvals_missing", f"{ref} has not enough approvals", _still_needed(approval_rules, version))
    _check_order(state, approval_rules, asked)
    _check_tried(state, asked)


def promote(
    state: NameState, approval_rules: ApprovalRules, actor: Actor, asked: Promotion, evidence: Sequence[Gate]
) -> Allowed:
    """Promote a version with the gates' results."""
    promotable(state, approval_rules, actor, asked)
    failed = [gate for gate in evidence if not gate.passed]
    firm = [gate for gate in failed if gate.firm]
    if firm or (failed and not asked.break_glass):
        told = firm or failed
        words = "; ".join(f"{gate.gate}: {gate.words}" for gate in told)
        raise _refused(
            "gate_refused",
            f"{state.name}@{asked.version} may not go to {asked.environment}: {words}",
            "--break-glass cannot skip this gate: servers check it again" if firm else None,
        )
    now = state.placements.get(asked.environment)
    body = {
        "version": asked.version,
        "environment": asked.environment,
        "previous": now.version if now else None,
        "evidence": [gate.document() for gate in evidence],
        "candidate": {"share": float(asked.candidate.share), "shadow": asked.candidate.shadow} if asked.candidate else None,
        "break_glass": asked.break_glass,
    }
    return Allowed("promoted", body)


def rollback(
    state: NameState,
    approval_rules: ApprovalRules,
    actor: Actor,
    environment: str,
    *,
    unfit: Callable[[Version], str | None],
    to: int | None = None,
) -> Allowed:
    """Roll back to the newest earlier version that can serve, or to `to`.

    If there is a candidate, only that is removed. `unfit` returns why servers would refuse a version's release now.
    """
    _check_role(actor, "rollback")
    _check_environment(approval_rules, environment)
    now = state.placements.get(environment)
    if now is None:
        raise _refused("not_placed", f"{environment} serves no {state.name}", f"flyball status {state.name}")
    if now.candidate is not None and to is None:
        return Allowed("rolled_back", {"environment": environment, "version": now.version, "from": now.candidate.version})
    if to is not None and to not in now.before:
        choices = ", ".join(map(str, now.before[-PASSED_OVER_MAX:])) or "none"
        raise _refused("never_placed", f"{environment} cannot go back to {state.name}@{to}", f"it served before: {choices}")
    passed_over: dict[int, str] = {}
    for past in [to] if to is not None else now.before[: -PASSED_OVER_MAX - 1 : -1]:
        why = _unreleased(state.versions[past], approval_rules) or unfit(state.versions[past])
        if why is None:
            told = [{"version": number, "why": words} for number, words in passed_over.items()]
            more = {"passed_over": told} if told else {}
            return Allowed("rolled_back", {"environment": environment, "version": past, "from": now.version, **more})
        passed_over[past] = why
    if to is not None:
        words = f"{environment} cannot go back to {state.name}@{to}: {passed_over[to]}"
        raise _refused("would_be_refused", words, "without --version it goes to the newest that can serve")
    raise _no_way_back(state, approval_rules, environment, now.version, passed_over)


def alias(state: NameState, approval_rules: ApprovalRules, actor: Actor, name: str, number: int | None) -> Allowed:
    """Point an alias to a version, or remove it."""
    _check_role(actor, "alias")
    if not _ALIAS.fullmatch(name):
        raise _refused("bad_alias", f"{name!r} cannot be an alias", "1 to 64 of a-z 0-9 . _ - and beginning with a letter")
    if name in approval_rules.environments:
        words = f"{name} is an environment; only a promotion changes what it serves"
        raise _refused("bad_alias", words, f"flyball promote {state.name}@N --environment {name}")
    if number is not None:
        _living(state, number)
    previous = state.aliases.get(name)
    if previous == number:
        where = f"leads to {number} already" if number is not None else "is not there"
        raise _refused("nothing_changes", f"{state.name}@{name} {where}")
    return Allowed("aliased", {"alias": name, "version": number, "previous": previous})


def revoke(state: NameState, actor: Actor, number: int, reason: str, *, stop: bool = False) -> Allowed:
    """Revoke a version. If it serves now, `stop` is required, and the name stops there."""
    _check_role(actor, "revoke")
    version = _known(state, number)
    if version.revoked is not None:
        raise _refused("nothing_changes", f"{state.name}@{number} is revoked already: {version.revoked}")
    if not reason.strip():
        raise _refused("reason_missing", "a revocation says why", f'flyball revoke {state.name}@{number} --reason "…"')
    if (placed := state.placed(number)) and not stop:
        raise _serves(state, number, placed, f"revoking it with --stop stops {state.name} there")
    return Allowed("revoked", {"version": number, "root": version.root})


def retire(state: NameState, actor: Actor, number: int) -> Allowed:
    """Retire a version; its history stays."""
    _check_role(actor, "retire")
    _living(state, number)
    if placed := state.placed(number):
        raise _serves(state, number, placed, "a serving version cannot be retired")
    if aliases := [name for name, leads_to in state.aliases.items() if leads_to == number]:
        raise _refused("aliased", f"{state.name}@{number} is {state.name}@{aliases[0]}", "move the alias first")
    return Allowed("retired", {"version": number})


def person(name: str) -> str:
    """Fold a person's name for comparison, as the trust policy does: case makes no second person."""
    return name.lower()


def _refused(code: str, words: str, next_step: str | None = None) -> GateRefusedError:
    return GateRefusedError(words, code=code, next_step=next_step)


def _check_role(actor: Actor, act: str) -> None:
    wanted = ROLES_OF[act]
    if not actor.roles & wanted:
        step = f"that is for a {' or '.join(sorted(wanted))}"
        raise ForbiddenError(f"{actor.name} may not {act}", code="forbidden", next_step=step)


def _check_owner(actor: Actor, owner: str) -> None:
    """Refuse a given, unauthenticated name that is not the key owner's."""
    if actor.authenticated == "none" and person(actor.name) != person(owner):
        raise _refused(
            "actor_not_owner",
            f"--by {actor.name} contradicts the key, which is {owner}'s: a signature is its owner's act",
            f"leave --by out to act as {owner}, or use a key of {actor.name}'s",
        )


def _known(state: NameState, number: int) -> Version:
    if number not in state.versions:
        known = f"its newest is {max(state.versions)}" if state.versions else "it has none"
        words = f"{state.name} has no version {number}; {known}"
        raise NotFoundError(words, code="version_not_found", next_step="flyball registry list")
    return state.versions[number]


def _living(state: NameState, number: int) -> Version:
    """A version that exists and is neither revoked nor retired."""
    version = _known(state, number)
    if version.revoked is not None:
        raise _refused("revoked", f"{state.name}@{number} is revoked: {version.revoked}", "register another version")
    if version.retired:
        raise _refused("retired", f"{state.name}@{number} is retired", "register it again under a new number")
    return version


def _unreleased(version: Version, approval_rules: ApprovalRules) -> str | None:
    """Why servers would refuse a version, by the log alone; a newly signed one lacks its approvals.

    Without a trust policy, a version with the same release and approvals as at its promotion counts as approved. Servers
    verify it against their own policy.
    """
    if version.revoked is not None:
        return f"revoked: {version.revoked}"
    if version.rejected is not None:
        return f"rejected: {version.rejected}"
    if version.retired or version.release is None:
        return "retired" if version.retired else "not signed"
    if approval_rules.approvals is None:
        release, approvals = version.placed_as or (None, 0)
        stands = version.release == release and len(version.approvals) >= approvals
        return None if stands else "signed again since it served, and the trust policy is unreadable"
    return None if len(version.approvals) >= approval_rules.needed(version.tier) else _still_needed(approval_rules, version)


def _no_way_back(
    state: NameState, approval_rules: ApprovalRules, environment: str, number: int, passed_over: Mapping[int, str]
) -> GateRefusedError:
    """A refused rollback; `passed_over`: earlier versions, newest first, and why each cannot serve."""
    ref = f"{state.name}@{number}"
    if not passed_over:
        words = f"{ref} is the first that {environment} serves"
        step = f"promote another:  flyball promote {state.name}@N --environment {environment}"
        return _refused("nothing_before", words, step)
    told = [f"{state.name}@{past} ({why})" for past, why in passed_over.items()]
    if len(told) > _PASSED_OVER_TOLD:
        told = [*told[:_PASSED_OVER_TOLD], f"and {len(told) - _PASSED_OVER_TOLD} more"]
    again = f"flyball sign {state.name}@{next(iter(passed_over))} --key FILE"
    step = f"have one signed and approved again:  {again}"
    if approval_rules.approvals is None:
        step = "repair the trust policy first:  flyball trust show"
    return _refused("nothing_before", f"{environment} cannot go back from {ref}: {'; '.join(told)}", step)


def _check_environment(approval_rules: ApprovalRules, name: str) -> None:
    if name not in approval_rules.environments:
        step = f"one of {', '.join(approval_rules.environments)}"
        raise NotFoundError(f"there is no environment {name!r}", code="unknown_environment", next_step=step)


def _check_glass(state: NameState, asked: Promotion) -> None:
    if asked.break_glass and not asked.reason.strip():
        words = "breaking the glass requires a reason, which stays in the history"
        raise _refused("reason_missing", words, f'flyball promote {state.name}@{asked.version} --break-glass --reason "…"')


def _check_order(state: NameState, approval_rules: ApprovalRules, asked: Promotion) -> None:
    place = approval_rules.environments.index(asked.environment)
    if place == 0 or asked.break_glass:
        return
    earlier = approval_rules.environments[place - 1]
    if asked.version not in state.proven.get(earlier, frozenset()):
        raise _refused(
            "out_of_order",
            f"{state.name}@{asked.version} has not served in {earlier}, which comes before {asked.environment}",
            f"flyball promote {state.name}@{asked.version} --environment {earlier}",
        )


def _check_tried(state: NameState, asked: Promotion) -> None:
    """Refuse a candidate without another champion, and a promotion that changes nothing."""
    now = state.placements.get(asked.environment)
    if asked.candidate is None:
        if now is not None and now.version == asked.version and now.candidate is None:
            raise _refused("nothing_changes", f"{asked.environment} serves {state.name}@{asked.version} already")
        return
    if now is None or now.version == asked.version:
        words = f"{asked.environment} serves no other version of {state.name} to try {asked.version} against"
        raise _refused("no_champion", words, f"flyball promote {state.name}@N --environment {asked.environment}")
    if not (0 < asked.candidate.share <= 1 or (asked.candidate.shadow and asked.candidate.share == 0)):
        raise _refused("bad_share", f"a share of {asked.candidate.share:g} tries nothing", "above 0 to 1, or a shadow")


def _serves(state: NameState, number: int, placed: Sequence[str], words: str) -> GateRefusedError:
    places = " and ".join(placed)
    return _refused(
        "still_placed",
        f"{state.name}@{number} serves in {places}; {words}",
        f"flyball rollback {state.name} --environment {placed[0]}",
    )


def _needed(approval_rules: ApprovalRules, version: Version) -> str:
    needed = approval_rules.needed(version.tier)
    if approval_rules.approvals is None:
        return "as many people as the trust policy says, which cannot be read,"
    return f"{needed} {'person' if needed == 1 else 'people'}"


def _still_needed(approval_rules: ApprovalRules, version: Version) -> str:
    needed = _needed(approval_rules, version)
    return f"{len(version.approvals)} of {needed} other than the author approved it (tier {version.tier})"
