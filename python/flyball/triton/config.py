"""Parses model configurations into the messages of proto/model_config.proto: files in text format, clients' in JSON.

Unknown fields of a file are reported, not refused, because Triton versions differ; those of a client are refused, as in
Triton. Must not know how a field is mapped. Needs the extra: pip install 'flyball[triton]'.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from flyball.errors import ModelRefusedError, needing

CONFIG_BYTES_MAX = 1 << 20
_MESSAGE_MAX = 300  # protobuf quotes the whole line


@dataclass(frozen=True, slots=True)
class Config:
    """A parsed configuration: its message, and the paths of unknown fields."""

    message: Any
    unknown: tuple[str, ...] = ()

    def states(self, field: str) -> bool:
        """Whether the file sets a message field or an optional field."""
        return bool(self.message.HasField(field))


def empty() -> Config:
    """The configuration of a model without a configuration file."""
    return Config(_protobuf()[0].ModelConfig())


def read_config(text: str, file: str = "config.pbtxt") -> Config:
    """Parse a configuration file; the error names it and the line."""
    if len(text) > CONFIG_BYTES_MAX:
        raise ModelRefusedError(f"{file} is longer than {CONFIG_BYTES_MAX} characters")
    messages, text_format = _protobuf()
    message = messages.ModelConfig()
    try:
        text_format.Parse(text, message, allow_unknown_field=True)
        unknown = tuple(dict.fromkeys(_unknown(text_format.Tokenizer(text.split("\n")), message.DESCRIPTOR)))
    except text_format.ParseError as error:
        raise ModelRefusedError(f"cannot parse {file}: {_cleaned(str(error))}") from error
    except RecursionError as error:
        raise ModelRefusedError(f"cannot parse {file}: its messages are nested too deeply") from error
    return Config(message, unknown)


def read_json(text: str) -> Config:
    """Parse a configuration in JSON that a client sent with a load."""
    if len(text) > CONFIG_BYTES_MAX:
        raise ModelRefusedError(f"config: longer than {CONFIG_BYTES_MAX} characters")
    message = _protobuf()[0].ModelConfig()
    from google.protobuf import json_format

    try:
        if not text.lstrip().startswith("{"):  # protobuf takes [] for an empty message
            raise json_format.ParseError("it is not an object")
        json_format.Parse(text, message)
    except json_format.ParseError as error:
        reason = _cleaned(str(error).partition("\n")[0])  # the list of all fields follows
        raise ModelRefusedError(
            f'config: not a model configuration in JSON: {reason}; write it as {{"max_batch_size": 8}}'
        ) from error
    return Config(message)


def _protobuf() -> tuple[Any, Any]:
    with needing("reading config.pbtxt needs protobuf", extra="triton"):
        from google.protobuf import text_format

        from flyball.triton import _model_config_pb2
    return _model_config_pb2, text_format


def _cleaned(message: str) -> str:
    """Clean up protobuf's `3:5 : Message type … has no field`, which has its package's names in it."""
    position, colon, reason = message.partition(" : ")
    line = position.partition(":")[0]
    message = f"line {line}: {reason}" if colon and line.isdigit() else message
    message = message.replace("flyball.triton.", "").strip().rstrip(".")
    return message if len(message) <= _MESSAGE_MAX else message[:_MESSAGE_MAX] + "…"


def _unknown(tokens: Any, message: Any, path: str = "", end: str = "") -> Iterator[str]:
    """Paths of the fields that the descriptor `message` lacks; None stands for an unknown field's own message."""
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
    while quoted and tokens.token[:1] in ("'", '"'):  # adjacent strings are one
        tokens.NextToken()
