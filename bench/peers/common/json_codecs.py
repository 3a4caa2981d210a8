"""The JSON readers and writers of the Python peers: orjson or msgspec, by name.

Each is imported only when it is chosen. Must not know servers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Codec = tuple[Callable[[bytes], Any], Callable[[Any], bytes]]


def codec(name: str) -> Codec:
    """A function that reads JSON and one that writes it; any other name is an error."""
    if name == "orjson":
        import orjson

        return orjson.loads, orjson.dumps
    if name == "msgspec":
        import msgspec

        return msgspec.json.Decoder().decode, msgspec.json.Encoder().encode
    raise ValueError(f"unknown JSON codec '{name}'; allowed: orjson, msgspec")
