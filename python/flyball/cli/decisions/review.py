"""`flyball decisions review`: lists decisions that wait for a person, and settles them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.cli.decisions.options import (
    FOLDER,
    ID_WORDS,
    DecisionName,
    Folder,
    Kek,
    Key,
    Url,
    decision_named,
    log_if_available,
    open_log,
)
from flyball.cli.option import AsJson, argument, option
from flyball.cli.output import console, printed_as_json
from flyball.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from flyball.native.journal import JournalLog

    Json = dict[str, Any]

review = typer.Typer(name="review", invoke_without_command=True)

_PLAIN = "Stored as plain text that is never erased: no personal data."
By = Annotated[str, option(f"Who decides. {_PLAIN}", "--by", metavar="NAME", envvar="FLYBALL_ACTOR")]
Why = Annotated[str, option(f"The reason. {_PLAIN}", "--reason", metavar="TEXT")]
Instead = Annotated[str, option("The new outcome.", "--outcome", metavar="NAME")]
DecisionId = Annotated[str, argument(ID_WORDS, metavar="ID")]


@review.callback()
def waiting(
    context: typer.Context,
    outcome: Annotated[str, option("The outcome that needs review.", metavar="NAME")] = "review",
    decision: Annotated[str | None, option("Only this decision.", metavar="NAME")] = None,
    since: Annotated[str | None, option("Since then: 2h, 1d, or a time.", metavar="TIME")] = None,
    limit: Annotated[int, option("Maximum number to list.", "--limit", "-n", min=1, max=100_000)] = 50,
    journal: Folder = FOLDER,
    json: AsJson = False,
) -> None:
    """List decisions with the outcome `review` that are not settled, oldest first.

    flyball decisions review --since 1d

    flyball decisions review settle 0192f6c1 --outcome pass --by ana --reason 'known customer'
    """
    if context.invoked_subcommand is not None:
        return
    from flyball.decision_log.read.filters import instant
    from flyball.decision_log.read.reviews import waiting as waiting_now

    since_ns = None if since is None else instant(since, "--since")
    log = open_log(journal)
    found, count = waiting_now(log, outcome, decision=decision, since_ns=since_ns, most=limit)
    if printed_as_json({"waiting": count, "decisions": [_document(record) for record in found]}, json):
        return
    out = console()
    for record in found:
        out.print(_line(record), markup=False)
    left_off = f", {count - len(found):,} not shown" if count > len(found) else ""
    out.print(f"{count:,} waiting{left_off}", style="bold", markup=False)
    if found:
        instead = _instead(log, found[0])
        example = f"flyball decisions review settle {found[0]['id']} --outcome {instead} --by NAME --reason TEXT"
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
    """Override a decision's outcome, with the person and the reason. It becomes a record in the same chain.

    flyball decisions override 0192f6c1 --outcome pass --by ana --reason "known customer"
    """
    from flyball.decision_log.annotations import record_override

    wanted, named = _known(decision_id, decision, outcome, journal, url)
    record_override(named, wanted, outcome, by=by, why=why, url=url, folder=journal, kek=kek, key=key)
    if printed_as_json({"id": wanted, "outcome": outcome, "by": by, "why": why}, json):
        return
    console().print(f"{wanted}   {outcome}, by {by}: {why}", markup=False)


review.command(
    "settle",
    help=(
        "Settle a decision with its final outcome, the person and the reason. It becomes a record in the same chain.\n\n"
        '    flyball decisions review settle 0192f6c1 --outcome pass --by ana --reason "known customer"'
    ),
)(override)


def _known(decision_id: str, decision: str | None, outcome: str, journal: Path, url: str | None) -> tuple[str, str]:
    """Return the whole id and its decision; raises for an unknown id, a wrong decision, or an outcome not in its policy."""
    from flyball.decision_log.annotations import checked_id
    from flyball.decision_log.read.reviews import outcomes_of
    from flyball.decision_log.replay.replay import decision_record

    log = log_if_available(journal, url)
    if log is None:
        return checked_id(decision_id), decision_named(decision_id, decision, None)
    record = decision_record(log, decision_id)
    named = decision_named(str(record["id"]), decision, str(record["decision"]))
    allowed = outcomes_of(log, record)
    if allowed is not None and outcome not in allowed:
        raise UsageError(f"unknown outcome {outcome!r}", next_step=f"outcomes of this decision: {', '.join(allowed)}")
    return str(record["id"]), named


def _instead(log: JournalLog, record: Json) -> str:
    """An example outcome to settle with: another one of its policy."""
    from flyball.decision_log.read.reviews import outcomes_of

    return next((name for name in outcomes_of(log, record) or () if name != record["outcome"]), "NAME")


def _document(record: Json) -> Json:
    kept = ("id", "time", "decision", "outcome", "band", "score", "reasons", "remedy")
    return {key: record.get(key) for key in kept}


def _line(record: Json) -> str:
    from flyball.decision_log.replay.report import outcome_text

    score = record.get("score")
    reasons = ", ".join(
        reason["code"] + (f" ({reason['field']})" if reason.get("field") else "") for reason in record.get("reasons") or ()
    )
    remedy = record.get("remedy")
    cause = f"for {remedy['cause']}" if remedy else reasons
    return (
        f"{record['id']}   {record['time'][:19]}   {record['decision']}   "
        f"{outcome_text(record['outcome'], score if isinstance(score, float) else None)}   {cause}"
    ).rstrip()
