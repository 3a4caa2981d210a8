"""What a run of claims prints at its end, and its exit code. Must not know what is claimed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

from bench.claims.claim import OK, SHORT, SHOWN, UNMEASURED
from flyball.errors import FlyballError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.claims.settled import Line


def counted(lines: Sequence[Line], covered: Sequence[Line]) -> str:
    """The last line of a run: every claim is in one of the counts."""
    kinds = {kind: sum(line.verdict.kind == kind for line in lines) for kind in (OK, SHORT, UNMEASURED, SHOWN)}
    elsewhere = f" ({len(covered)} of them hold on another machine class)" if covered else ""
    shown = f", {kinds[SHOWN]} shown without a bar" if kinds[SHOWN] else ""
    told = f"{len(lines)} claims: {kinds[OK]} ok, {kinds[SHORT]} fall short, {kinds[UNMEASURED]} not measured"
    return f"{told}{elsewhere}{shown}"


def exit_code(lines: Sequence[Line], covered: Sequence[Line], *, strict: bool) -> int:
    """1 if a claim falls short; a claim that was measured nowhere fails only a strict run."""
    kinds = [line.verdict.kind for line in lines]
    return int(SHORT in kinds or (strict and kinds.count(UNMEASURED) > len(covered)))


def exit_with(main: Callable[[], int]) -> NoReturn:
    """Run a command to its exit code; our own errors are printed without a trace."""
    try:
        sys.exit(main())
    except FlyballError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
