"""`flyball explain-latency`: a model's operators by time, each against its floor, and what to try."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.markup import escape
from rich.table import Table

from flyball.cli.option import argument, option
from flyball.cli.output import console, counted, print_json

if TYPE_CHECKING:
    from flyball.models.profile import Explanation, OperatorLine


def explain_latency(
    model: Annotated[Path, argument("The model file.", metavar="MODEL.onnx")],
    batch_rows: Annotated[int, option("Rows per run.", min=1, max=65_536)] = 1,
    data: Annotated[
        Path | None, option("Real rows: .csv, .parquet or .jsonl; by default random ones.", metavar="ROWS")
    ] = None,
    limit: Annotated[int, option("Number of operators to show, slowest first.", "--limit", "-n", min=1, max=1000)] = 12,
    plot: Annotated[Path | None, option("Also write a plot, as .png or .svg.", metavar="FILE")] = None,
    json: Annotated[bool, option("Print JSON, with every operator.", "--json")] = False,
) -> None:
    """Show where the time of a model's run goes, and what to try next.

    The serving engine runs the model on one thread with ONNX Runtime's profiler on. Each operator is compared with its
    floor: the time to move its bytes or to compute its operations, whichever is longer, at the speeds just measured on
    this machine. An operator at its floor (1×) only gets faster by doing less: 8-bit weights, fewer columns, a smaller
    model. One far above its floor may get faster as it is: more rows per run, fewer and larger operators.

        flyball explain-latency fraud.onnx

        flyball explain-latency cnn.onnx --batch-rows 8 --plot cnn.png

    Trees, text operators and loops have no floor, because their work depends on the values: use real rows, --data.
    """
    from flyball.models.profile import explain

    if plot is not None:
        from flyball.models.profile.plot import check_plot_file

        check_plot_file(plot)
    explanation = explain(model, rows=batch_rows, data=data)
    if plot is not None:
        from flyball.models.profile.plot import write_plot

        write_plot(explanation, plot, model.name, limit)
    if json:
        print_json(explanation.document())
    else:
        _show(explanation, model, limit)


def _show(found: Explanation, model: Path, top: int) -> None:
    from flyball.bench.table import latency, percent, size

    out = console()
    figures = f"{counted(found.rows, 'row')}   p50 {latency(found.p50_us)}   p99 {latency(found.p99_us)}"
    how = f"{counted(found.runs, 'run')}, one thread   ONNX Runtime {found.ort_version}"
    out.print(f"[bold]{escape(model.name)}[/bold]   {figures}   {how}")
    out.print(_operators(found, top))
    left = found.lines[top:]
    if left:
        out.print(
            f"  … and {counted(len(left), 'operator')} more: {latency(sum(line.took_us for line in left))}", style="dim"
        )
    floor = f"; their floors: {latency(found.floor_us)}" if found.floor_us >= 0.005 else ""
    out.print(f"  all operators: {latency(found.operators_us)}{floor}")
    between = f"{latency(found.between_us)} ({percent(found.between_us / found.p50_us)})"
    out.print(f"  between operators: {between}, a run's fixed cost and the steps from operator to operator")
    cost = f", about {latency(found.call_cost_us)} per operator, which is subtracted" if found.call_cost_us else ""
    out.print(f"  with the profiler on, a run takes {latency(found.profiled_us)}{cost}", style="dim")
    if found.operators_us > found.p50_us * 1.1:
        out.print("  their sum exceeds a whole run: the profiler disturbs this model, or other processes use the core")
    speeds = ", ".join(f"{read.bytes_a_second / 1e9:.0f} GB/s of {size(read.set_bytes)}" for read in found.ceiling.reads)
    out.print(f"  this machine, one thread: {found.ceiling.flops / 1e9:.0f} Gflop/s; reads {speeds}", style="dim")
    out.print("\n[bold]What to try next[/bold]")
    for one in found.advice:
        out.print(f"  • {escape(one.do)}")
        out.print(f"    [dim]{escape(one.why)}[/dim]")


def _operators(found: Explanation, top: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("operator", "node"):
        table.add_column(head, no_wrap=True)
    for head in ("calls", "time", "share", "moved", "operations", "floor", "× floor"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("shapes", overflow="fold")
    for line in found.lines[:top]:
        table.add_row(*_cells(line))
    return table


def _cells(line: OperatorLine) -> list[str]:
    from flyball.bench.table import latency, percent, size
    from flyball.models.profile.profiler_overhead import RESOLUTION_US

    floor = "< 0.01 µs" if line.floor_us is not None and line.floor_us < 0.005 else latency(line.floor_us)
    times = "—" if line.times_floor is None else f"{line.times_floor:.1f}" if line.times_floor < 100 else "> 100"
    return [
        escape(line.op),
        escape(line.node if len(line.node) <= 28 else line.node[:27] + "…"),
        str(line.calls),
        latency(line.took_us) if line.took_us >= RESOLUTION_US * line.calls else f"< {latency(RESOLUTION_US * line.calls)}",
        percent(line.share),
        size(line.moved_bytes),
        _operations(line.operations),
        floor,
        times,
        escape(
            " → ".join(", ".join(shape for shape in shapes if "[]" not in shape) for shapes in (line.inputs, line.outputs))
        ),
    ]


def _operations(count: int | None) -> str:
    if count is None:
        return "—"
    for limit, divisor, unit in ((1e3, 1, ""), (1e6, 1e3, " k"), (1e9, 1e6, " M")):
        if count < limit:
            return f"{count / divisor:.3g}{unit}"
    return f"{count / 1e9:.3g} G"
