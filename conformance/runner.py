"""Runs one module's cases in a client's own environment, and prints each result as a line of JSON.

Run:  python -m conformance.runner MODULE GROUP  with the addresses on stdin. Must not know how a server is started.
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import inspect
import json
import signal
import sys
import traceback
from typing import TYPE_CHECKING

from conformance.addresses import Addresses
from conformance.case import CASES, FAIL, PASS, SKIPPED, Case, Row

if TYPE_CHECKING:
    from collections.abc import Iterator

CASE_S = 60
_REASON_MAX = 400


def rows(module: str, group: str, addresses: Addresses) -> Iterator[Row]:
    """Every case of the module for this protocol."""
    importlib.import_module(module)
    for case in CASES[module]:
        if not addresses.flavour or addresses.flavour in case.flavours:
            verdict, reason = _outcome(case, addresses)
            yield Row(group, case.what(addresses.flavour), verdict, reason)


def _outcome(case: Case, addresses: Addresses) -> tuple[str, str]:
    if case.skipped:
        return SKIPPED, case.skipped
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(CASE_S)
    try:
        answer = case.run(addresses)
        if inspect.iscoroutine(answer):
            asyncio.run(answer)
    except Exception as error:
        return FAIL, told(error)
    finally:
        signal.alarm(0)
    return PASS, ""


def told(error: Exception) -> str:
    """An error in one line; a bare assertion by its source."""
    text = str(error)
    if isinstance(error, AssertionError):
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "conformance" in frame.filename]
        line = frames[-1].line if frames else ""
        text = f"{line}  {text}".strip()
    else:
        text = f"{type(error).__name__}: {text}"
    return " ".join(text.split())[:_REASON_MAX]


def _too_long(*_: object) -> None:
    raise TimeoutError(f"no answer within {CASE_S} s")


def main() -> int:
    """Print the rows one by one."""
    module, group = sys.argv[1:]
    addresses = Addresses.read(sys.stdin.read())
    for row in rows(module, group, addresses):
        print(json.dumps(dataclasses.asdict(row)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
