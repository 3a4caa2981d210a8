"""The next step for a name that a server does not serve, from the names that its refusal lists. Must not know transports."""

from __future__ import annotations

import re
from difflib import get_close_matches

_UNKNOWN = re.compile(r"(?P<what>unknown model|unknown decision):? '(?P<name>[^']*)'")
_SERVING = re.compile(r"; serving: (?P<names>.+?)(?: and \d+ more)?$")
_SERVE = {
    "unknown model": "flyball serve NAME=MODEL.onnx",
    "unknown decision": "flyball serve --decision FILE",
}


def instead_of(message: str) -> str | None:
    """The served name that was probably meant, or the command that serves another; None if the message is about neither."""
    unknown, serving = _UNKNOWN.search(message), _SERVING.search(message)
    if unknown is None:
        return None
    command = _SERVE[unknown["what"]]
    if serving is None:
        return f"serve it:  {command}"
    by_lower = {name.lower(): name for name in serving["names"].split(", ")}
    near = get_close_matches(unknown["name"].lower(), by_lower, n=1)
    return f"did you mean {by_lower[near[0]]!r}?" if near else f"use one of these names, or serve yours:  {command}"
