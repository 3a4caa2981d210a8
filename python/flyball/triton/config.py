"""Reads config.pbtxt with protobuf's own text format, into the messages of proto/model_config.proto.

A field that those messages do not have is named, not failed on: there are older Tritons and will be younger ones. Must not
know what flyball makes of a field. Needs the extra: pip install 'flyball[triton]'.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flyball.errors import ModelRefusedError, needing

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFIG_BYTES_MAX = 1 << 20
_TOLD_MAX = 300  # protobuf quotes the whole line


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration that parsed: its message, and the paths of the fields that no message has."""

    message: Any
    unknown: tuple[str, ...] = ()

    def states(self, field: str) -> bool:
        """Whether the file says something of a field that is a message or optional."""
        return bool(self.message.HasField(field))


def empty() -> Config:
    """What a model without a config.pbtxt has."""
    return Config(_protobuf()[0].ModelConfig())


def read_config(text: str) -> Config:
    """Parse a config.pbtxt; raises with the line of what is wrong with it."""
    if len(text) > CONFIG_BYTES_MAX:
        raise ModelRefusedError(f"config.pbtxt is longer than {CONFIG_BYTES_MAX} characters")
    messages, text_format = _protobuf()
    message = messages.ModelConfig()
    try:
        text_format.Parse(text, message, allow_unknown_field=True)
        unknown = tuple(dict.fromkeys(_unknown(text_format.Tokenizer(text.split("\n")), message.DESCRIPTOR)))
    except text_format.ParseError as error:
        raise ModelRefusedError(f"config.pbtxt cannot be read: {_in_our_words(str(error))}") from error
    except RecursionError as error:
        raise ModelRefusedError("config.pbtxt cannot be read: its messages are nested too deeply") from error
    return Config(message, unknown)


def _protobuf() -> tuple[Any, Any]:
    with needing("reading config.pbtxt needs protobuf", extra="triton"):
        from google.protobuf import text_format

        from flyball.triton import _model_config_pb2
    return _model_config_pb2, text_format


def _in_our_words(told: str) -> str:
    """Protobuf says `3:5 : Message type … has no field` with its own package's names in it."""
    place, colon, words = told.partition(" : ")
    line = place.partition(":")[0]
    told = f"line {line}: {words}" if colon and line.isdigit() else told
    told = told.replace("flyball.triton.", "").strip().rstrip(".")
    return told if len(told) <= _TOLD_MAX else told[:_TOLD_MAX] + "…"


def _unknown(tokens: Any, message: Any, path: str = "", end: str = "") -> Iterator[str]:
    """Paths of the fields that `message`, a descriptor, does not have; None stands for an unknown field's own message."""
    while not tokens.AtEnd() and not (end and tokens.TryConsume(end)):
        name = tokens.token
        tokens.NextToken()
        field = message.fields_by_name.get(name) if message else None
        if message and field is None:
            yield path + name
        tokens.TryConsume(":")
        inner = field.message_type if field else None
        if tokens.TryConsume("["):
            while not tokens.AtEnd() and not tokens.TryConsume("]"):
                yield from _unknown_in_value(tokens, inner, path + name)
                tokens.TryConsume(",")
        else:
            yield from _unknown_in_value(tokens, inner, path + name)
        if not tokens.TryConsume(","):
            tokens.TryConsume(";")


def _unknown_in_value(tokens: Any, message: Any, path: str) -> Iterator[str]:
    for start, end in (("{", "}"), ("<", ">")):
        if tokens.TryConsume(start):
            yield from _unknown(tokens, message, f"{path}.", end)
            return
    quoted = tokens.token[:1] in ("'", '"')
    tokens.NextToken()
    while quoted and tokens.token[:1] in ("'", '"'):  # strings side by side are one
        tokens.NextToken()
