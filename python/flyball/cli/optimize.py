"""`flyball optimize`: makes a model faster, proves it equal, and reports every candidate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from flyball.cli.option import AsJson, argument, finite, option
from flyball.cli.output import console, printed_as_json
from flyball.cli.progress import progress_on
from flyball.errors import UsageError

if TYPE_CHECKING:
    from flyball.models.optimize.report import Result
    from flyball.models.optimize.run import Budget
    from flyball.models.optimize.subject import Subject

_BUDGETS = {"p99": "p99_ms", "size": "size_mb", "memory": "memory_mb"}


def optimize(
    subject: Annotated[Path, argument("The model or decision to optimize.", metavar="MODEL.onnx|DECISION.yaml|DIR")],
    data: Annotated[Path, option("Rows as callers send them: .csv, .parquet, .jsonl, or .npz of tensors.", metavar="ROWS")],
    target: Annotated[str | None, option("The target column of the data, for the accuracy gate.", metavar="COLUMN")] = None,
    segments: Annotated[str | None, option("Column of segments; none may get worse.", metavar="COLUMN")] = None,
    budget: Annotated[list[str] | None, option("p99=MS, size=MB or memory=MB; may be repeated.", metavar="NAME=MAX")] = None,
    threshold: Annotated[
        list[float] | None, option("A decision threshold; a decision's bands are known.", callback=finite)
    ] = None,
    score: Annotated[str | None, option("The model's score, such as probabilities[1].", metavar="NAME[ELEMENT]")] = None,
    bound: Annotated[float, option("Answers that differ by no more are equal.", min=0.0, callback=finite)] = 1e-5,
    flips_max: Annotated[
        float, option("Maximum share of rows with another decision.", min=0.0, max=1.0, callback=finite)
    ] = 0.01,
    out: Annotated[Path | None, option("Directory of the run; by default NAME.optimize.", metavar="DIR")] = None,
    seconds: Annotated[
        float, option("Length of each served window, in seconds; sets the length of the run.", min=0.5, max=600.0)
    ] = 5.0,
    fresh: Annotated[bool, option("Start over; ignore the results of an earlier run.", "--fresh")] = False,
    json: AsJson = False,
) -> None:
    """Make a model faster without changing what it decides.

    Eleven steps: budget, baseline, cost of features, export, equivalence, graph, 8 bits, batch size, benchmark, bursts
    and a final test. A candidate with different answers appears in the report but cannot be chosen. An interrupted run
    continues where it stopped.

        flyball optimize fraud/ --data rows.parquet --target is_fraud --budget p99=1

        flyball optimize cnn.onnx --data images.npz --target label
    """
    from flyball.models.equivalence.gate import Bars
    from flyball.models.optimize.all_steps import optimise
    from flyball.models.optimize.rows import read_rows
    from flyball.models.optimize.run import Run
    from flyball.models.optimize.subject import subject_of
    from flyball.models.optimize.work_folder import WorkFolder
    from flyball.native.model_runs import Model

    found = subject_of(subject, output=score, thresholds=threshold or [])
    rows = read_rows(data, found, Model(found.model).facts.inputs, labels=target, segments=segments)
    folder = WorkFolder((out or Path(f"{found.name}.optimize")).absolute())
    run = Run(found, rows, folder, _budget(budget or [], found), Bars(flips=flips_max), bound, seconds)
    with progress_on(console(stderr=True)) as progress:
        result = optimise(run, progress, fresh=fresh)
    if printed_as_json(result.document, json):
        return
    if result.reused:
        console(stderr=True).print(f"reused from an earlier run: {', '.join(result.reused)}", markup=False)
    _show(result)


def _budget(given: list[str], subject: Subject) -> Budget:
    """Parse --budget; without p99, the decision's SLO applies."""
    from flyball.models.optimize.run import Budget

    found: dict[str, Any] = {} if subject.promised_p99_ms is None else {"p99_ms": subject.promised_p99_ms}
    for one in given:
        name, _, number = one.partition("=")
        try:
            found[_BUDGETS[name]] = float(number)
            Budget(**found)
        except (KeyError, ValueError):  # a figure that is not above 0 is a ValueError too
            raise UsageError(
                f"--budget: {one!r} is not valid", next_step="give p99=MS, size=MB or memory=MB, such as  --budget p99=2"
            ) from None
    return Budget(**found)


def _show(result: Result) -> None:
    from rich.markup import escape
    from rich.table import Table

    from flyball.bench.table import latency, percent, size

    out = console()
    table = Table("candidate", "p50", "p99", "size", "memory", "loss", "flips", "may serve", box=None, pad_edge=False)
    for line in result.choice.lines:
        verdict = "[green]yes[/green]" if line.accepted else f"[red]no[/red]: {escape(line.why_not)}"
        chosen = line.name == result.choice.chosen
        table.add_row(
            f"[bold]{escape(line.name)}[/bold]" if chosen else escape(line.name),
            latency(line.p50_us),
            latency(line.p99_us),
            size(line.size_bytes),
            size(line.resident_bytes),
            "" if line.loss is None else f"{line.loss:.3g}",
            "" if line.flips is None else percent(line.flips),
            verdict if line.within_budget else f"{verdict}, over budget",
        )
    out.print(table)
    if why := result.document["steps"]["quantise"]["does_nothing"]:
        out.print(f"quantisation: {why}", markup=False)
    if unused := result.document["steps"]["features"]["unused"]:
        out.print(f"inputs that no tree splits on: {', '.join(unused)}", markup=False)
    out.print(f"[bold]{escape(result.choice.chosen)}[/bold]: {escape(result.choice.reason)}")
    out.print(f"  {result.certificate.words}", markup=False)
    for text in _next_steps(result):
        out.print(f"  {text}", markup=False)


def _next_steps(result: Result) -> list[str]:
    """Notes on serving the result, the files written, and the next command."""
    document, folder = result.document, result.folder
    lines = []
    if (budget := document["budget"])["kept"] is False:
        lines.append(
            f"over budget when served: p99 is {budget['served_p99_ms']:.3g} ms, the budget is {budget['p99_ms']:g} ms"
        )
    if (rows := document["batch_rows_max"]) is not None and rows > 1:
        lines.append(f"larger batches are not faster: serve it with  --batch-rows-max {rows}")
    if (decision := document["decision"]) is None:
        return [
            *lines,
            f"{folder}/  chosen.onnx, equivalence.json, report.html",
            f"next: flyball register NAME {folder}/chosen.onnx --certificate {folder}/equivalence.json",
        ]
    if cut := decision["columns_cut"]:
        idle = decision["transforms_cut"]
        unused = f", and without {idle} transform{'s' * (idle > 1)} used only for them" if idle else ""
        lines.append(f"the decision is without {', '.join(cut)}{unused}")
    if decision["error"] is not None:
        lines.append(f"the decision was written, but no request could be decided: {decision['error']}")
    return [*lines, f"{folder}/  chosen/ with the decision, report.html", f"next: flyball register NAME {folder}/chosen"]
