"""`flyball decisions replay`: decides recorded requests again, as they were, by a candidate, or with other values."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.cli.decisions.options import FOLDER, ID_WORDS, Folder, Kek, open_log
from flyball.cli.option import AsJson, argument, option
from flyball.cli.output import console, counted, print_json, printed_as_json
from flyball.cli.progress import progress_on
from flyball.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flyball.decision_log.replay.replay import Selection
    from flyball.native.journal import JournalLog

_NOT_THE_SAME = 4


def replay(
    decision_id: Annotated[str | None, argument(f"One decision. {ID_WORDS}", metavar="[ID]")] = None,
    decision: Annotated[str | None, option("Only this decision.", metavar="NAME")] = None,
    since: Annotated[str | None, option("Since then: 2h, 1d, or a time.", metavar="TIME")] = None,
    until: Annotated[str | None, option("Before then.", metavar="TIME")] = None,
    sample: Annotated[int | None, option("Replay a random sample of this size.", min=1)] = None,
    seed: Annotated[int, option("Seed of the sample.")] = 0,
    settings: Annotated[
        list[str] | None, option("Replace a field or feature (what-if).", "--set", metavar="NAME=VALUE")
    ] = None,
    candidate: Annotated[Path | None, option("Replay with this decision instead.", metavar="FILE")] = None,
    group_by: Annotated[str | None, option("Group flips by these fields.", metavar="A,B")] = None,
    bad: Annotated[
        list[str] | None, option("A true outcome that should have been stopped; may be repeated.", metavar="TRUTH")
    ] = None,
    stopped: Annotated[
        str | None, option("Outcomes that stop; by default the policy's adverse ones.", metavar="A,B")
    ] = None,
    html: Annotated[Path | None, option("Write the report as HTML.", metavar="FILE")] = None,
    models: Annotated[Path | None, option("Folder of model files, by digest.", metavar="DIR")] = None,
    tolerance: Annotated[float, option("Relative tolerance of scores.", min=0.0, max=1.0)] = 1e-6,
    journal: Folder = FOLDER,
    kek: Kek = None,
    json: AsJson = False,
) -> None:
    """Replay recorded decisions with the same documents and models, and the recorded features.

    Each result is bit-exact, within tolerance, differs, erased, or cannot, with the reason. The exit code is 0 if all are
    bit-exact or within tolerance, else 4.

        flyball decisions replay last --set amount=25

        flyball decisions replay --since 1d --candidate stricter.yaml --group-by country
    """
    from flyball.decision_log.read.filters import instant
    from flyball.decision_log.replay.replay import Selection

    if settings and (candidate is not None or decision_id is None):
        raise UsageError("--set needs one decision", next_step="flyball decisions replay ID --set NAME=VALUE")
    if candidate is None and (group_by or bad or stopped or html):
        raise UsageError("--group-by, --bad, --stopped and --html need --candidate", next_step="--candidate FILE.yaml")
    log = open_log(journal, kek, reveal=True)
    selection = Selection(
        decision_id,
        decision,
        None if since is None else instant(since, "--since"),
        None if until is None else instant(until, "--until"),
        sample,
        seed,
    )
    if settings:
        _what_if(log, selection, settings, models, tolerance, json)
    elif candidate is not None:
        stopping = {"bad": bad or (), "stopped": _names(stopped)}
        _candidate(log, selection, candidate, _names(group_by), stopping, html, json)
    else:
        _same(log, selection, models, tolerance, json)


def _same(log: JournalLog, selection: Selection, models: Path | None, tolerance: float, json: bool) -> None:
    from flyball.decision_log.replay.deployments import Deployments
    from flyball.decision_log.replay.replay import replay, selected
    from flyball.decision_log.replay.report import replay_document, replay_lines

    with closing(Deployments(log, models)) as deployments, _progress(log, "replay") as progress:
        found = replay(log, selected(log, selection), deployments, tolerance=tolerance, progress=progress)
    if not found.rows:
        raise _nothing()
    document = replay_document(found, tolerance)
    if json:
        print_json(document)
    else:
        _lines(console(), replay_lines(document))
    if not found.kept:
        raise typer.Exit(_NOT_THE_SAME)


def _what_if(
    log: JournalLog, selection: Selection, settings: list[str], models: Path | None, tolerance: float, json: bool
) -> None:
    from flyball.decision_log.replay.deployments import Deployments
    from flyball.decision_log.replay.replay import Runtimes, selected
    from flyball.decision_log.replay.report import what_if_document, what_if_lines
    from flyball.decision_log.replay.what_if import what_if

    (record,) = selected(log, selection)
    with closing(Deployments(log, models)) as deployments:
        document = what_if_document(what_if(record, settings, deployments, tolerance))
    others = Runtimes(log).differences(str(record["runtime"]))
    if printed_as_json({**document, "runtime_differences": others}, json):
        return
    _lines(console(), what_if_lines(document, others))


def _candidate(
    log: JournalLog,
    selection: Selection,
    candidate: Path,
    by: list[str],
    stopping: dict[str, Any],
    html: Path | None,
    json: bool,
) -> None:
    from flyball.decision.decision import Decision
    from flyball.decision_log.replay.candidate import truths_of, try_candidate
    from flyball.decision_log.replay.candidate_report import trial_lines, write_page
    from flyball.decision_log.replay.flips import figures
    from flyball.decision_log.replay.replay import selected
    from flyball.decision_log.replay.report import trial_document

    loaded = Decision.load(candidate)
    selection = replace(selection, decision=selection.decision or loaded.name)
    with _progress(log, f"candidate {loaded.name}") as progress:
        trial = try_candidate(loaded, selected(log, selection), fields=by, progress=progress)
    if not trial.pairs and not trial.left_out:
        raise _nothing()
    truths = truths_of(log, str(selection.decision), {pair.id for pair in trial.pairs})
    document = trial_document(trial, figures(trial, truths, **stopping), len(truths))
    if html is not None:
        write_page(document, html)
    if printed_as_json(document, json):
        return
    out = console()
    _lines(out, trial_lines(document))
    if html is not None:
        out.print(str(html), markup=False)


@contextmanager
def _progress(log: JournalLog, name: str) -> Iterator[Callable[[int, int], None]]:
    """Show progress through the log; the number of selected decisions is known only at its end."""
    segments = log.segments()
    first = segments[0].first_seq if segments else 0
    span = max((segments[-1].first_seq + segments[-1].frames if segments else 1) - first, 1)
    done = 0

    def update(rows: int, seq: int) -> None:
        nonlocal done
        done = rows
        step.update(min((seq - first) / span, 1.0), counted(rows, "decision"))

    with progress_on(console(stderr=True)) as progress:
        step = progress.begin(name, 1.0)
        yield update
        step.end(counted(done, "decision"))


def _lines(out: Any, lines: list[str]) -> None:
    for line in lines:
        out.print(line, markup=False)


def _names(text: str | None) -> list[str]:
    return [] if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _nothing() -> NotFoundError:
    return NotFoundError(
        "no decision matches", code="record_not_found", next_step="list decisions:  flyball decisions query"
    )
