"""Expirations under current placements: releases, keys, the trust policy, and versions below a minimum.

None of them stops a running server, so without a warning they surface only when a restarted server refuses. Must not know
how they are shown.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from flyball.registry.views import EndingView

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flyball.registry.tables.projections import Approval, Placement
    from flyball.signing.policy import TrustPolicy

SOON = timedelta(days=14)
_GO_ON = "running servers keep it; a restarted one refuses it"
_Version = tuple[str, int]


def endings(
    placed: Sequence[Placement],
    signed: Mapping[_Version, Mapping[str, str]],
    approvals: Mapping[_Version, Sequence[Approval]],
    policy: TrustPolicy,
    now: datetime,
) -> list[EndingView]:
    """What has expired or expires soon, earliest first. `signed`: bodies of the `signed` events."""
    found = []
    if policy.expires and _near(policy.expires, now):
        words = "servers load nothing new under it:  flyball trust renew --expires 90d"
        found.append(_told("the trust policy", policy.expires, words, now))
    keys = {key.hint: key for key in policy.keys}
    for one in placed:
        version, ref = (one.name, one.version), f"{one.name}@{one.version} in {one.place}"
        least = policy.minimum.get(one.name.lower(), 0)
        if one.version < least:
            words = f"{ref} is below the minimum, {least}: {_GO_ON}; place a later version"
            found.append(EndingView(what=ref, ends_at=None, ended=True, words=words))
        hints = [signed.get(version, {}).get("key"), *(approval.key for approval in approvals.get(version, ()))]
        ends = [("its release", signed.get(version, {}).get("not_after"))]
        ends += [(f"the key of {keys[hint].name}", keys[hint].until) for hint in hints if hint in keys]
        for what, until in ends:
            if until and _near(until, now):
                found.append(_told(f"{ref}: {what}", until, f"{_GO_ON}; place another version", now))
    return sorted(found, key=lambda one: (one.ends_at or now, one.words))


def _near(until: str, now: datetime) -> bool:
    return _time(until) <= now + SOON


def _told(what: str, until: str, then: str, now: datetime) -> EndingView:
    end = _time(until)
    ended = end <= now
    when = f"ended {_span(now - end)} ago" if ended else f"ends in {_span(end - now)}"
    return EndingView(what=what, ends_at=end, ended=ended, words=f"{what} {when}, {end:%Y-%m-%d %H:%M} UTC: {then}")


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _span(span: timedelta) -> str:
    """3 days, 5 hours or 12 minutes."""
    return next(_counted(span // unit, word) for unit, word in _UNITS if span >= unit or word == "minute")


_UNITS = ((timedelta(days=1), "day"), (timedelta(hours=1), "hour"), (timedelta(minutes=1), "minute"))


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'s' * (count != 1)}"
