"""Text output of the registry's verbs: versions, placements and events as lines and tables.

Converts the views of `flyball.registry` to text. Must not query the registry.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from flyball.cli.output import console, counted
from flyball.cli.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flyball.registry.views import EventView, GateView, NodeView, PlacementView, VersionView

_NAMED_MAX = 3
_STATES = {
    "registered": "yellow", "signed": "yellow", "approved": "green", "rejected": "red", "revoked": "bold red",
    "retired": "dim", "applied": "green", "waiting": "yellow", "refused": "red",
}  # fmt: skip


def moment(time: datetime) -> str:
    """2026-11-16 07:31:22 UTC."""
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def short(digest: str) -> str:
    """The start of a digest: enough to see that two differ."""
    algorithm, colon, hexadecimal = digest.rpartition(":")
    return f"{algorithm}{colon}{hexadecimal[:12]}…"


def size(count: int) -> str:
    """11.8 MB."""
    amount, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"


def state(name: str) -> Text:
    """A state with its colour."""
    return Text(name, style=_STATES.get(name, ""))


def table(*columns: str) -> Table:
    """A table in the common style."""
    return Table(*columns, box=None, pad_edge=False, header_style="dim")


def row(shown: Table, *cells: Any) -> None:
    """Add one row; text is never read as markup."""
    shown.add_row(*(cell if isinstance(cell, Text) else Text("" if cell is None else printable(cell)) for cell in cells))


def say(line: str | Text, style: str = "") -> None:
    """Print one line on stdout."""
    console().print(line if isinstance(line, Text) else Text(line), style=style)


def next_step(command: str, why: str = "", *, word: str = "Next") -> None:
    """Print the next command: always the last line."""
    say(f"{word}:  {command}" + (f"   {why}" if why else ""), style="dim")


def approvals(version: VersionView) -> str:
    """1 of 2 (grace)."""
    who = f" ({', '.join(one.approver for one in version.approvals)})" if version.approvals else ""
    needed = "?" if version.approvals_needed is None else version.approvals_needed
    return f"{len(version.approvals)} of {needed}{who}"


def waits_for(version: VersionView, environments: Sequence[str] = ()) -> tuple[str, str]:
    """The next command for a version, and why; `environments` are the registry's, in order."""
    ref = f"{version.name}@{version.number}"
    if version.signed_by is None:
        return f"flyball sign {ref} --key FILE", "(with its author's key)"
    if version.approvals_needed is None:
        return "flyball trust show", "(the trust policy is unreadable or expired, so the required approvals are unknown)"
    missing = version.approvals_needed - len(version.approvals)
    if missing > 0:
        return (
            f"flyball approve {ref} --key FILE",
            f"(needs {counted(missing, 'more approval')} by people other than the author)",
        )
    reached = max((environments.index(name) for name in version.placed if name in environments), default=-1)
    if environments and reached == len(environments) - 1:  # earlier environments it has left are not a next step
        return f"flyball status {version.name}", f"(it is placed in {environments[-1]})"
    further = environments[reached + 1] if environments else "ENVIRONMENT"
    return f"flyball promote {ref} --environment {further}", "(it has all approvals)"


def placements(found: Sequence[PlacementView]) -> Table:
    """A table of placements: since when, by whom, why, and the servers that report serving it."""
    shown = table("name", "environment", "version", "candidate", "since", "by", "why", "approved by", "served by")
    for one in found:
        row(
            shown,
            one.name,
            one.environment,
            one.version,
            candidate(one),
            moment(one.since),
            who(one),
            one.reason,
            ", ".join(one.approvers),
            served_by(one),
        )
    return shown


def served_by(one: PlacementView) -> Text:
    """The servers that serve what is placed: web-1, web-2 and 3 more."""
    if not one.served_by:
        return Text("no server", style="yellow")
    more = f" and {len(one.served_by) - _NAMED_MAX} more" if len(one.served_by) > _NAMED_MAX else ""
    return Text(", ".join(one.served_by[:_NAMED_MAX]) + more)


def deviations(found: Sequence[PlacementView], nodes: Sequence[NodeView], *, now: bool) -> list[Text]:
    """One line per server that serves something other than what is placed, or is gone."""
    lines: dict[str, str] = {}
    for one in found:
        for node in nodes:
            if (node.deployment, node.environment) != (one.name, one.environment):
                continue
            where = f"{node.node} of {one.environment}"
            if node.gone_since is not None:
                lines[f"{where} {'is' if now else 'was'} gone since {moment(node.gone_since)}"] = "yellow"
            elif node.state != "applied" or node.node not in one.served_by:
                lines[f"{where} {_instead(one, node, now=now)}"] = "bold red"
    return [Text(line, style=style) for line, style in lines.items()]


def _instead(one: PlacementView, node: NodeView, *, now: bool) -> str:
    serving = f"{one.name}@{node.serving.version or '?'}" if node.serving else f"no {one.name}"
    why = f": {node.reason}" if node.reason else ""
    return f"{'serves' if now else 'served'} {serving} instead of {one.name}@{one.version}{why}"


def candidate(one: PlacementView) -> str:
    """7 gets 5 %, or 7 as a shadow."""
    if one.candidate is None:
        return ""
    tried = one.candidate
    return f"{tried.version} as a shadow" if tried.shadow else f"{tried.version} gets {tried.share:.0%}"


def events(found: Iterable[EventView], *, names: bool) -> Table:
    """A table of events: when, who, what, why."""
    shown = table("event", "when", "who", *(["name"] if names else []), "what", "why")
    for one in found:
        style = "red" if one.kind in ("refused", "revoked") or one.body.get("break_glass") else ""
        named = [one.name] if names else []
        row(shown, one.sequence, moment(one.at), who(one), *named, Text(_done(one), style=style), one.reason)
    return shown


def gates(found: Sequence[GateView]) -> None:
    """Print the result of each gate of a promotion."""
    for one in found:
        mark = Text("  passed   " if one.passed else "  failed   ", style="green" if one.passed else "bold red")
        say(Text.assemble(mark, f"{one.gate}: {one.words}"))


def who(one: EventView | PlacementView) -> str:
    """The actor, marked if not authenticated."""
    from flyball.registry.events.sentences import who as marked

    return marked(one)


def _done(event: EventView) -> str:
    from flyball.registry.events.sentences import act

    return act(event)
