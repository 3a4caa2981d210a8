"""`flyball bench`: measures a server with a scenario, compares two, or checks a latency contract.

Every form writes one JSON record; table, page and plots are made from it, now or later.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flyball.cli.option import argument, one_of, option
from flyball.cli.output import console, print_json
from flyball.cli.progress import progress_on
from flyball.errors import FlyballError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from flyball.bench.record import BenchRecord

_RESULTS = Path("bench/results")

bench = typer.Typer(
    invoke_without_command=True,
    no_args_is_help=False,
    help=(
        "Benchmark a server reproducibly: open loop, latency from the intended send time, every answer checked, "
        "confidence intervals on every figure, one file with all raw data.\n\n"
        "    flyball bench --scenario fraud-gbdt\n\n"
        "    flyball bench --scenario mine.yaml --url http://127.0.0.1:8080\n\n"
        "    flyball bench compare old.onnx new.onnx\n\n"
        "    flyball bench gate slo.yaml --url http://127.0.0.1:8080"
    ),
)

Out = Annotated[Path, option("Directory for the record, the page and the plots.", "--out", metavar="DIR")]
AsJson = Annotated[bool, option("Print the figures as JSON.", "--json")]


@bench.callback()
def run(
    context: typer.Context,
    scenario: Annotated[
        str | None, option("fraud-gbdt, fraud-mlp-12mb, vision-cnn-int8, or your own YAML file.", metavar="NAME|FILE")
    ] = None,
    url: Annotated[str | None, option("Measure this server; by default one is started locally.", metavar="URL")] = None,
    source: Annotated[
        Path | None, option("Report an existing record again: table, page and plots.", "--from", metavar="FILE")
    ] = None,
    quick: Annotated[bool, option("Short windows, for a first look; too short to publish.", "--quick")] = False,
    out_folder: Out = _RESULTS,
    as_json: AsJson = False,
) -> None:
    """Measure a scenario and report it."""
    if context.invoked_subcommand is not None:
        return
    if (scenario is None) == (source is None):
        raise UsageError(
            "give --scenario to measure, or --from to report a record"
            if scenario is None
            else "give one of --scenario and --from",
            next_step="try:  flyball bench --scenario fraud-gbdt",
        )
    if source is not None:
        from flyball.bench.record import BenchRecord

        _report(BenchRecord.read(source), source, as_json)
        return
    from flyball.bench.documents import read_scenario
    from flyball.bench.scenario_run import run_scenario

    wanted = read_scenario(scenario or "")
    if quick:
        wanted = wanted.quick()
    path = _new_file(out_folder, wanted.scenario)
    with _reported(path, as_json), progress_on(console(stderr=as_json)) as progress:
        run_scenario(wanted, path, _command(), progress, url)


@bench.command()
def compare(
    a: Annotated[str, argument("A record (.json), a URL, or a model ([NAME=]PATH).", metavar="A")],
    b: Annotated[str, argument("What to compare with A; of the same kind.", metavar="B")],
    model: Annotated[str | None, option("The model's or decision's name, if A and B are URLs.")] = None,
    protocol: Annotated[
        str, option("http, http-binary, grpc or decision.", callback=one_of("http", "http-binary", "grpc", "decision"))
    ] = "http",
    data: Annotated[
        Path | None, option("A decision's rows, with --protocol decision: JSON Lines or Parquet.", metavar="ROWS")
    ] = None,
    connections: Annotated[int, option("Number of connections.", min=1, max=10_000)] = 16,
    rate: Annotated[float | None, option("Open loop at this rate per second; by default a closed loop.", min=1)] = None,
    repeats: Annotated[int, option("Number of window pairs.", min=5, max=100)] = 10,
    seconds: Annotated[float, option("Length of a window, in seconds.", min=0.2, max=600)] = 2.0,
    server: Annotated[str | None, option("Which server, if the records have several.", metavar="NAME")] = None,
    out_folder: Out = _RESULTS,
    as_json: AsJson = False,
) -> None:
    """Report whether B differs from A, or that no difference is shown.

    flyball bench compare before.json after.json

    flyball bench compare fraud.onnx faster.onnx --repeats 20
    """
    from flyball.bench.compare import compare_records
    from flyball.bench.live import Load, compare_live
    from flyball.bench.record import BenchRecord
    from flyball.bench.report.comparison import comparison_document, print_comparison

    records = [side.endswith(".json") for side in (a, b)]
    if all(records):
        sides = [(Path(side), BenchRecord.read(Path(side))) for side in (a, b)]
        found, caveats = compare_records(sides[0], sides[1], server)
        path = None
    elif any(records):
        raise UsageError(
            "a record can only be compared with another record", next_step="give two records, or two URLs or models"
        )
    else:
        path = _new_file(out_folder, "compare")
        load = Load(model, protocol, connections, rate, repeats, seconds, data)
        with _reported(path, as_json, quiet=True), progress_on(console(stderr=as_json)) as progress:
            found = compare_live((a, b), load, path, _command(), progress)
        caveats = []
    if as_json:
        print_json({**comparison_document(found), "caveats": caveats, "record": str(path) if path else None})
    else:
        print_comparison(found, caveats, console(), path)


@bench.command()
def gate(
    contract: Annotated[Path, argument("The latency contract: model, rate, p99, error budget.", metavar="SLO.YAML")],
    url: Annotated[str | None, option("The server; overrides the contract's url.", metavar="URL")] = None,
    out_folder: Out = _RESULTS,
    as_json: AsJson = False,
) -> None:
    """Check a server against its latency contract; exit code 4 if it is broken or not proven.

    flyball bench gate slo.yaml --url http://127.0.0.1:8080
    """
    from flyball.bench.documents import read_contract
    from flyball.bench.live import gate_live
    from flyball.errors import GateRefusedError

    wanted = read_contract(contract)
    address = url or wanted.url
    if address is None:
        raise UsageError(f"{contract} has no url", next_step="give the server:  --url http://127.0.0.1:8080")
    path = _new_file(out_folder, f"gate-{wanted.contract}")
    with _reported(path, as_json, quiet=True), progress_on(console(stderr=as_json)) as progress:
        verdict = gate_live(wanted, address, path, _command(), progress)
    promise = f"p99 ≤ {wanted.p99_ms:g} ms at {wanted.rate_per_s:,.0f}/s"
    if verdict.outcome != "kept":
        code = "contract_broken" if verdict.outcome == "broken" else "contract_not_proven"
        raise GateRefusedError(
            f"{wanted.contract}: {promise} is {verdict.outcome}: {'; '.join(verdict.reasons)}",
            code=code,
            next_step=f"see the details:  flyball bench --from {path}",
        )
    if as_json:
        print_json({"contract": wanted.contract, "outcome": verdict.outcome, "record": str(path)})
    else:
        console().print(f"{wanted.contract}: {promise} is kept, with 95 % confidence.  Raw data: {path}", markup=False)


@contextmanager
def _reported(path: Path, as_json: bool, *, quiet: bool = False) -> Iterator[None]:
    """Report the record, also if the measurement ended early; the error is raised again."""
    from flyball.bench.record import BenchRecord

    try:
        yield
    except (FlyballError, KeyboardInterrupt):
        # The reason for the early end is what matters: a failing report must not replace it.
        with suppress(FlyballError, OSError):
            if path.is_file() and BenchRecord.read(path).windows:
                _report(BenchRecord.read(path), path, as_json)
        raise
    if not quiet:
        _report(BenchRecord.read(path), path, as_json)


def _report(record: BenchRecord, path: Path, as_json: bool) -> None:
    """Write page and plots beside the record, and print the table, or JSON."""
    from flyball.bench.report import print_report, report_document, summarise, write_page, write_plots

    summary = summarise(record)
    page = write_page(summary, path.with_suffix(".html"), raw=path)
    plots = write_plots(summary, path.parent, path.stem)
    if as_json:
        print_json(
            {**report_document(summary), "record": str(path), "page": str(page), "plots": [str(plot) for plot in plots]}
        )
        return
    out: Console = console()
    print_report(summary, out, path)
    out.print(f"Page: {page}    Plots: {len(plots)} PNGs beside it", markup=False, soft_wrap=True)


def _new_file(folder: Path, name: str) -> Path:
    """Return the path of a new file; raises before anything is measured if the folder is not writable."""
    existing = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise UsageError(f"--out: {existing} is not a writable directory", next_step="give another one:  --out DIR")
    stem = f"{datetime.now(UTC):%Y-%m-%dT%H%M%S}-{name}"
    names = (f"{stem}{'' if number == 1 else f'-{number}'}.json" for number in count(1))
    return next(path for path in (folder / name for name in names) if not path.exists())


def _command() -> list[str]:
    """The command line as given, with the program's name instead of its path on this machine."""
    return ["flyball", *sys.argv[1:]]
