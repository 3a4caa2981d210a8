"""What makes a run differ from machine to machine: the recorded fingerprint beside this machine's. Must not know records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def differences(recorded: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Each part that is not the same, in words; lists by what one has and the other lacks."""
    return _differences("", recorded, here)


def _differences(place: str, was: Any, now: Any) -> list[str]:
    if was == now:
        return []
    if isinstance(was, dict) and isinstance(now, dict):
        found = []
        for name in sorted({*was, *now}):
            found += _differences(f"{place}.{name}" if place else str(name), was.get(name), now.get(name))
        return found
    if isinstance(was, list) and isinstance(now, list):
        lacking = [f"-{item}" for item in was if item not in now] + [f"+{item}" for item in now if item not in was]
        return [f"{place} {' '.join(lacking) or 'in another order'}"]
    return [f"{place} {_shown(was)} → {_shown(now)}"]


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)
