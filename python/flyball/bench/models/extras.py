"""What the makers have in common: the extra that they need, and libraries that talk while they work."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flyball.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterator

OPSET = 17  # old enough for every runtime that we take, new enough for all operators here
IR_VERSION = 9


def missing_demo(error: ImportError) -> MissingExtraError:
    """The error for a part of the `demo` extra that is not installed."""
    return MissingExtraError(
        f"the demo's parts are not installed ({error})", next_step="install them:  pip install 'flyball[demo]'"
    )


@contextmanager
def without_advice() -> Iterator[None]:
    """Quantising advises pre-processing, which would change nothing in these graphs."""
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
