"""Shared by the model makers: the required extra, and silencing of noisy libraries."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

OPSET = 17  # old enough for every supported runtime, new enough for all operators here
IR_VERSION = 9


@contextmanager
def without_advice() -> Iterator[None]:
    """Hide the quantiser's advice on pre-processing, which would not change these graphs."""
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
