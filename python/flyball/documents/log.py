"""The control plane's log: JSON lines on stderr, in the data plane's format.

The only setup of `logging`. Must not know what is logged.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any, Literal

_LEVELS = {"INFO": logging.INFO, "WARN": logging.WARNING, "ERROR": logging.ERROR}
_NAMES = {number: name for name, number in _LEVELS.items()}


class _Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        line = {"level": _NAMES.get(record.levelno, record.levelname), "message": record.getMessage()}
        # Looked up for each line: tests and the command line replace the stream.
        sys.stderr.write(json.dumps({**line, **getattr(record, "fields", {})}) + "\n")
        sys.stderr.flush()


_LOGGER = logging.getLogger("flyball")
_LOGGER.setLevel(logging.INFO)
_LOGGER.propagate = False
_LOGGER.addHandler(_Lines())


def log(level: Literal["INFO", "WARN", "ERROR"], message: str, **fields: Any) -> None:
    """Write one line."""
    _LOGGER.log(_LEVELS[level], "%s", message, extra={"fields": fields})
