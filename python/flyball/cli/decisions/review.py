"""`flyball decisions review`: decisions that were left to people, and what these decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.cli.decisions.options import (
    FOLDER,
    AsJson,
    DecisionName,
    Folder,
    Kek,
    Key,
    Url,
    decision_named,
    log_at_hand,
    open_log,
)
from flyball.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from flyball.native.journal import JournalLog

    Json = dict[str, Any]

review = typer.Typer(
    name="review",
    invoke_without_command=True,
    help="List decisions that wait for a person, oldest first; settle one with `review settle`.",
)

_PLAIN = "Stored as plain text, which no erasure removes: write no personal data."
By = Annotated[str, typer.Option("--by", metavar="NAME", help=f"Who decides. {_PLAIN}")]
Why = Annotated[str, typer.Option("--why", metavar="TEXT", help=f"For what reason. {_PLAIN}")]
Instead = Annotated[str, typer.Option("--outcome", metavar="NAME", help="What it is instead.")]
DecisionId = Annotated[str, typer.Argument(metavar="ID", help="The decision.")]


@review.callback()
def waiting(
    context: typer.Context,
    outcome: Annotated[str, typer.Option(metavar="NAME", help="The outcome that waits for a person.")] = "review",
    decision: Annotated[str | None, typer.Option(metavar="NAME", help="Those of one decision.", show_default=False)] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="From then on: 2h, 1d, or when.", show_default=False)
    ] = None,
    most: Annotated[int, typer.Option(min=1, max=100_000, help="So many at most.")] = 50,
    journal: Folder = FOLDER,
    json: AsJson = False,
) -> None:
    """List decisions whose outcome is `review` and that nobody has settled, oldest first."""
    if context.invoked_subcommand is not None:
        return
    from flyball.cli.output import console, print_json
    from flyball.decision_log.read.filters import instant
    from flyball.decision_log.read.reviews import waiting as waiting_now

    since_ns = None if since is None else instant(since)
    log = open_log(journal)
    found, count = waiting_now(log, outcome, decision=decision, since_ns=since_ns, most=most)
    if json:
        print_json({"waiting": count, "decisions": [_told(record) for record in found]})
        return
    out = console()
    for record in found:
        out.print(_line(record), markup=False)
    left_off = f", {count - len(found):,} not shown" if count > len(found) else ""
    out.print(f"{count:,} waiting{left_off}", style="bold", markup=False)
    if found:
        instead = _instead(log, found[0])
        example = f"flyball decisions review settle {found[0]['id']} --outcome {instead} --by NAME --why TEXT"
        out.print(f"Settle:  {example}", style="dim", markup=False)


def override(
    decision_id: DecisionId,
    outcome: Instead,
    by: By,
    why: Why,
    decision: DecisionName = None,
    url: Url = None,
    journal: Folder = FOLDER,
    kek: Kek = None,
    key: Key = None,
    json: AsJson = False,
) -> None:
    """Override a decision: what it is instead, who says so, and why."""
    from flyball.cli.output import console, print_json
    from flyball.decision_log.annotations import checked_id, tell_override

    wanted = checked_id(decision_id)
    named = _known(wanted, decision, outcome, journal, url)
    tell_override(named, wanted, outcome, by=by, why=why, url=url, folder=journal, kek=kek, key=key)
    if json:
        print_json({"id": wanted, "outcome": outcome, "by": by, "why": why})
        return
    console().print(f"{wanted}   {outcome}, by {by}: {why}", markup=False)


review.command(
    "settle", help="Say what a decision is instead, who says so, and why. It becomes a record in the same chain."
)(override)


def _known(decision_id: str, decision: str | None, outcome: str, journal: Path, url: str | None) -> str:
    """The decision's name.

    Refuses an id that the log does not have, another decision's name, and an outcome that the policy does not have.
    """
    from flyball.decision_log.read.reviews import outcomes_of
    from flyball.decision_log.replay.replay import decision_record

    log = log_at_hand(journal, url)
    if log is None:
        return decision_named(decision_id, decision, None)
    record = decision_record(log, decision_id)
    named = decision_named(decision_id, decision, str(record["decision"]))
    allowed = outcomes_of(log, record)
    if allowed is not None and outcome not in allowed:
        raise UsageError(f"{outcome!r} is no outcome of this decision", next_step=f"those are: {', '.join(allowed)}")
    return named


def _instead(log: JournalLog, record: Json) -> str:
    """An outcome that a person could settle it with: another one of its own policy."""
    from flyball.decision_log.read.reviews import outcomes_of

    return next((name for name in outcomes_of(log, record) or () if name != record["outcome"]), "NAME")


def _told(record: Json) -> Json:
    kept = ("id", "time", "decision", "outcome", "band", "score", "reasons", "remedy")
    return {key: record.get(key) for key in kept}


def _line(record: Json) -> str:
    from flyball.decision_log.replay.report import judged

    score = record.get("score")
    reasons = ", ".join(
        reason["code"] + (f" ({reason['field']})" if reason.get("field") else "") for reason in record.get("reasons") or ()
    )
    remedy = record.get("remedy")
    told = f"for {remedy['cause']}" if remedy else reasons
    return (
        f"{record['id']}   {record['time'][:19]}   {record['decision']}   "
        f"{judged(record['outcome'], score if isinstance(score, float) else None)}   {told}"
    ).rstrip()
