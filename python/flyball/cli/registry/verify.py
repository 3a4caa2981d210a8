"""`flyball registry verify` and `rebuild`: verifies the registry, and rebuilds its tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.text import Text

from flyball.cli.option import AsJson, option
from flyball.cli.output import counted, print_json, printed_as_json
from flyball.cli.registry.options import WHERE, Home, Where, home, opened
from flyball.cli.registry.text import next_step, say
from flyball.errors import RegistryBrokenError

if TYPE_CHECKING:
    from flyball.registry.acts.interface import Acting


def verify(
    registry: Where = WHERE,
    head: Annotated[
        list[str] | None,
        option("A chain head stored elsewhere, which must be in the chain. May be repeated.", metavar="SEQUENCE:HASH"),
    ] = None,
    journal: Annotated[
        Path | None, option("A decision journal, whose records also have heads.", "--journal-folder", metavar="DIR")
    ] = None,
    quick: Annotated[bool, option("Only check that artifacts exist; do not read them.", "--quick")] = False,
    json: AsJson = False,
) -> None:
    """Verify the event chain, the tables against the events, and every byte of every artifact.

    Exit code 4 if anything is wrong; reports all findings. Anyone with write access to the database could have cut off
    its end, or rewritten it: only a head stored elsewhere, by you or in a journal, reveals that.

        flyball registry verify
    """
    with opened(registry) as found:
        shown = found.verify(quick=quick)
        findings = [*shown.findings, *_missing_heads(found, head or [], journal)]
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
            f"the registry was changed or damaged: {counted(len(shown.findings), 'finding')}",
            next_step="rebuild tables with  flyball registry rebuild;  for events, restore a backup",
        )
    if not json:
        seen = f"{counted(shown.events, 'event')}, {counted(shown.versions, 'version')}, "
        bytes_ = "artifacts exist; their bytes were not read" if shown.quick else "artifacts match their digests"
        say(Text.assemble(("verified", "bold green"), f"   {seen}{shown.artifacts:,} {bytes_}"))
        say(f"Store elsewhere:  --head {shown.head.sequence}:{shown.head.hash}", style="dim")


def _missing_heads(registry: Acting, stored: list[str], journal: Path | None) -> list[str]:
    """Findings on stored heads that are not in the chain."""
    from flyball.registry.events.heads import heads_of, read_head, unlike

    heads = {read_head(text) for text in stored}
    if journal is not None:
        from flyball.decision_log.read.whole_log import WholeLog

        heads |= heads_of(WholeLog(journal).records(kinds=["registry"]))
    return list(unlike(registry, heads))


def rebuild(registry: Home = WHERE, json: AsJson = False) -> None:
    """Rebuild the tables from the events. Nothing is lost: the tables hold only derived data.

    flyball registry rebuild
    """
    with home(registry) as found:
        events = found.rebuild()
    if printed_as_json({"events": events}, json):
        return
    say(f"rebuilt from {counted(events, 'event')}")
    next_step("flyball registry verify")
