"""`flyball demo`: trains and serves a fraud model, and compares it with FastAPI and a bare loop."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from flyball.cli.option import option
from flyball.cli.output import console
from flyball.cli.progress import progress_on
from flyball.errors import needing

if TYPE_CHECKING:
    from rich.console import Console

    from flyball.bench.progress import Progress
    from flyball.bench.table import Row

_FOLDER = Path(".flyball/demo")
_MODEL = "fraud"
_CONNECTIONS = 16
_PAYLOADS = 2000
_BETTER = "FastAPI, the better of def and async def"


def demo(
    seconds: Annotated[float, option("Length of each measurement, in seconds.", min=0.5, max=600)] = 3.0,
    serve: Annotated[bool, option("Then serve it, until Ctrl-C.", "--serve")] = False,
) -> None:
    """Train, convert, serve, load-test and compare a model, in about a minute.

    flyball demo --seconds 2
    """
    out = console()
    with needing("the demo needs more packages", extra="demo"):
        import fastapi  # noqa: F401 - a missing extra is reported before anything is trained
        import lightgbm  # noqa: F401
        import onnxmltools  # noqa: F401
        import uvicorn  # noqa: F401
    model, payloads = _prepared(out)
    rows = _measured(out, model, payloads, seconds)
    out.print()
    _print_results(out, rows, model)
    if serve:
        _keep(out, model)


def _prepared(out: Console) -> tuple[Path, bytes]:
    """Return the model and its payloads; made once, then reused."""
    from flyball.bench.models.fraud import fraud_rows, make_fraud_gbdt
    from flyball.bench.payloads import make_payloads

    model, payloads = _FOLDER / f"{_MODEL}.onnx", _FOLDER / "payloads.jsonl"
    if model.is_file() and payloads.is_file():
        out.print(f"Using [bold]{model}[/bold] from the last run")
        return model, payloads.read_bytes()
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with out.status("Training a fraud model, 300 trees on 20,000 synthetic payments"):
        # Written under another name and renamed: an interrupted run must not leave half a model.
        made = make_fraud_gbdt(_FOLDER / "training.onnx")
        rows = make_payloads(made, _PAYLOADS, seed=11, rows=lambda count: fraud_rows(count, seed=11)[0])
        payloads.write_bytes(rows)
        made.replace(model)
    out.print(f"Trained and converted [bold]{model}[/bold]")
    return model, rows


def _measured(out: Console, model: Path, payloads: bytes, seconds: float) -> list[Row]:
    with progress_on(out) as progress:
        serve = [sys.executable, "-m", "flyball", "serve", f"{_MODEL}={model}", "--listen", "127.0.0.1:0"]
        peer = [sys.executable, "-m", "flyball.bench.peers.fastapi_peer", f"{_MODEL}={model}", "--style"]
        flyball = _server("flyball serve", serve, payloads, seconds, progress)
        threads = _server("FastAPI, def", [*peer, "def"], payloads, seconds, progress)
        loop = _server("FastAPI, async def", [*peer, "async"], payloads, seconds, progress)
        bare = _bare(model, payloads, seconds, progress)
    better = max(threads, loop, key=lambda row: row.rate_per_s or 0.0)
    return [flyball, replace(better, name=_BETTER), bare]


def _server(name: str, command: list[str], payloads: bytes, seconds: float, progress: Progress) -> Row:
    """Start, time the first answer, load with many connections and then with one."""
    from flyball.bench.process import Process, split_cpus
    from flyball.bench.run import first_answer, run_load
    from flyball.bench.stages import mean_batch_rows, metrics
    from flyball.bench.table import Row
    from flyball.errors import ServerFaultError
    from flyball.native.load_documents import LoadPlan, LoadResult, Warmup

    server_cpus, generator_cpus = split_cpus()
    step = progress.begin(name, 2 * seconds)

    def load(plan: LoadPlan, done: float) -> LoadResult:
        result = run_load(
            plan,
            payloads,
            lambda gone, count: step.update(done + min(gone, seconds), f"{count:,} requests"),
        )
        if result.mismatched or result.failed:
            raise ServerFaultError(
                f"{name} returned {result.mismatched} wrong answers and {result.failed} errors: {result.first_problem}"
            )
        return result

    with Process(command, cpus=server_cpus) as server:
        cold_start_s = first_answer(server.url, _MODEL, payloads.split(b"\n", 1)[0], started=server.started)
        plan = LoadPlan(
            url=server.url,
            model=_MODEL,
            connections=_CONNECTIONS,
            duration_s=seconds,
            warmup=Warmup(least_s=0.5, most_s=0.5),
            cpus=generator_cpus,
        )
        ours = "flyball" in name
        before = metrics(server.url) if ours else ""
        many = load(plan, 0.0)
        batch = mean_batch_rows(before, metrics(server.url), _MODEL) if ours else None
        one = load(plan.model_copy(update={"connections": 1}), seconds)
        rss_bytes = server.rss_bytes()
    step.end(f"{many.rate_per_s:,.0f} req/s")
    return Row(
        name, many.rate_per_s, one.latency_us.p50, one.latency_us.p99, batch, cold_start_s, rss_bytes, many.bottleneck
    )


def _bare(model: Path, payloads: bytes, seconds: float, progress: Progress) -> Row:
    from flyball.bench.bare_loop import measure_bare
    from flyball.bench.process import on_cpus, split_cpus
    from flyball.bench.table import Row

    step = progress.begin("bare ONNX Runtime", 1)
    with on_cpus(split_cpus()[0]):
        result = measure_bare(model, payloads, min(seconds, 3.0))
    step.end(f"{result.rate_per_s:,.0f} runs/s")
    return Row("bare ONNX Runtime", result.rate_per_s, result.p50_us, result.p99_us)


def _print_results(out: Console, rows: list[Row], model: Path) -> None:
    from flyball.bench.process import split_cpus
    from flyball.bench.table import notes, results_table
    from flyball.native.machine import build_info

    server_cpus, generator_cpus = split_cpus()
    shared = "shared with the load generator" if server_cpus == generator_cpus else "the load generator on others"
    cores = f"{len(server_cpus)} core{'s' * (len(server_cpus) != 1)}, {shared}"
    title = f"{_MODEL}, 300 trees · REST JSON · closed loop · {cores} · {build_info().profile} build"
    out.print(results_table(rows, title, _CONNECTIONS))
    for note in notes(rows):
        out.print(note, style="dim", markup=False)
    out.print("The bare loop has one caller and no network: it is the lower bound of one run, not a server.", style="dim")
    ours, peer = rows[0].rate_per_s, rows[1].rate_per_s
    if ours and peer:
        out.print(
            f"\nflyball answers {ours / peer:.1f} times as many requests per second as {rows[1].name}, all answers checked."
        )
    out.print("\nNext:")
    flyball = _command()
    for command in (
        f"{flyball} inspect {model}",
        f"{flyball} serve {model}",
        f"echo '{{\"input\": [[120, 3, 0.6, 0.4, 6, 900, 30, 400, 1, 1, 4, 2]]}}' | {flyball} predict {_MODEL}",
    ):
        out.print(f"  {command}", markup=False, soft_wrap=True)  # a wrapped line cannot be pasted


def _command() -> str:
    """How to call flyball here: by name if it is on the PATH, else by its path beside this interpreter."""
    import shlex
    import shutil

    if shutil.which("flyball"):
        return "flyball"
    script = Path(sys.executable).parent / "flyball"
    return shlex.quote(str(script.relative_to(Path.cwd()) if script.is_relative_to(Path.cwd()) else script))


def _keep(out: Console, model: Path) -> None:
    from flyball.cli.serve import become_serve

    out.print("\nThe server keeps running; Ctrl-C ends it.")
    become_serve(f"{_MODEL}={model}")
