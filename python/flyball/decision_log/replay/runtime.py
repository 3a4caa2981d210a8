"""Compares a recorded runtime fingerprint with this machine's. Must not know records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def differences(recorded: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """One text per difference; lists by added and removed items."""
    return _differences("", recorded, here)


def _differences(path: str, was: Any, now: Any) -> list[str]:
    if was == now:
        return []
    if isinstance(was, dict) and isinstance(now, dict):
        found = []
        for name in sorted({*was, *now}):
            found += _differences(f"{path}.{name}" if path else str(name), was.get(name), now.get(name))
        return found
    if isinstance(was, list) and isinstance(now, list):
        changed = [f"-{item}" for item in was if item not in now] + [f"+{item}" for item in now if item not in was]
        return [f"{path} {' '.join(changed) or 'reordered'}"]
    return [f"{path} {_shown(was)} → {_shown(now)}"]


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)
