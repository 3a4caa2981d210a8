"""What the makers have in common: the form of their files, and libraries that talk while they work."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

OPSET = 17  # old enough for every runtime that we take, new enough for all operators here
IR_VERSION = 9


@contextmanager
def without_advice() -> Iterator[None]:
    """Quantising advises pre-processing, which would change nothing in these graphs."""
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
