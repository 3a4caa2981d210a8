"""`flyball registry verify` and `rebuild`: whether the registry is as it was written, and its tables made anew."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flyball.cli.registry.options import WHERE, AsJson, Home, Where, home, opened
from flyball.errors import RegistryBrokenError

if TYPE_CHECKING:
    from flyball.registry.acts.interface import Acting


def verify(
    registry: Where = WHERE,
    head: Annotated[
        list[str] | None,
        typer.Option(metavar="SEQUENCE:HASH", help="A head that you kept; the chain must have it. May be repeated."),
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A decision journal, whose records have heads too.", show_default=False),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Do not read artifacts: ask only whether they are there.")] = False,
    json: AsJson = False,
) -> None:
    """Check everything: each event against the one before, the tables against the events, every byte of every artifact.

    Exit code 4 where something is wrong; all of it is told. Whoever could write to the database could also have cut off its
    end, or written it anew: what was kept elsewhere, by you or in a journal, shows that.
    """
    from rich.text import Text

    from flyball.cli.output import counted, print_json
    from flyball.cli.registry.text import say

    with opened(registry) as found:
        shown = found.verify(quick=quick)
        findings = [*shown.findings, *_unlike(found, head or [], journal)]
    shown = shown.model_copy(update={"findings": findings})
    if json:
        print_json(shown.model_dump(mode="json"))
    else:
        for finding in shown.findings:
            say(Text(f"  {finding}", style="red"))
    if not json:
        for warning in shown.warnings:
            say(Text(f"  {warning}", style="yellow"))
    if shown.findings:
        raise RegistryBrokenError(
            f"the registry is not as it was written: {counted(len(shown.findings), 'place')}",
            next_step="tables alone are made anew by  flyball registry rebuild;  events are not repaired: restore a backup",
        )
    if not json:
        seen = f"{counted(shown.events, 'event')}, {counted(shown.versions, 'version')}, "
        bytes_ = "artifacts are there; their bytes were not read" if shown.quick else "artifacts are what their digests say"
        say(Text.assemble(("whole", "bold green"), f"   {seen}{shown.artifacts:,} {bytes_}"))
        say(f"Keep elsewhere:  --head {shown.head.sequence}:{shown.head.hash}", style="dim")


def _unlike(registry: Acting, kept: list[str], journal: Path | None) -> list[str]:
    """What was kept elsewhere and is not in the chain."""
    from flyball.registry.events.heads import heads_of, read_head, unlike

    heads = {read_head(text) for text in kept}
    if journal is not None:
        from flyball.decision_log.read.whole_log import WholeLog

        heads |= heads_of(WholeLog(journal).records(kinds=["registry"]))
    return list(unlike(registry, heads))


def rebuild(registry: Home = WHERE, json: AsJson = False) -> None:
    """Make the tables anew from the events alone. Nothing is lost by it: they hold nothing else."""
    from flyball.cli.output import counted, print_json
    from flyball.cli.registry.text import next_step, say

    with home(registry) as found:
        events = found.rebuild()
    if json:
        print_json({"events": events})
        return
    say(f"made anew from {counted(events, 'event')}")
    next_step("flyball registry verify")
