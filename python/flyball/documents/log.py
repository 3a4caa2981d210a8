"""The control plane's log on stderr, in the data plane's format: JSON lines, or text for people.

The only setup of `logging`. Must not know what is logged.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any, Literal

_LEVELS = {"INFO": logging.INFO, "WARN": logging.WARNING, "ERROR": logging.ERROR}
_FORMAT: Literal["auto", "json", "text"] = "auto"
_NAMES = {number: name for name, number in _LEVELS.items()}


class _Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        # Looked up for each line: tests and the command line replace the stream.
        stream = sys.stderr
        as_text = _FORMAT == "text" or (_FORMAT == "auto" and stream.isatty())
        stream.write((_text if as_text else _json)(record) + "\n")
        stream.flush()


def _json(record: logging.LogRecord) -> str:
    return json.dumps({"level": _level(record), "message": record.getMessage(), **_fields(record)})


def _text(record: logging.LogRecord) -> str:
    moment = time.strftime("%H:%M:%SZ", time.gmtime(record.created))
    fields = "".join(f" {key}={json.dumps(value, ensure_ascii=False)}" for key, value in _fields(record).items())
    return f"{moment} {_level(record):>5} {record.getMessage()}{fields}"


def _level(record: logging.LogRecord) -> str:
    return _NAMES.get(record.levelno, record.levelname)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = getattr(record, "fields", {})
    return fields


def write_as(form: Literal["auto", "json", "text"]) -> None:
    """How later lines are written; `auto` is text on a terminal, else JSON."""
    global _FORMAT  # noqa: PLW0603 - a process has one log
    _FORMAT = form


_LOGGER = logging.getLogger("flyball")
_LOGGER.setLevel(logging.INFO)
_LOGGER.propagate = False
_LOGGER.addHandler(_Lines())


def log(level: Literal["INFO", "WARN", "ERROR"], message: str, **fields: Any) -> None:
    """Write one line."""
    _LOGGER.log(_LEVELS[level], "%s", message, extra={"fields": fields})
