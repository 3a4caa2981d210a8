"""What `flyball demo` shows beside its figures: progress that fits the place, and commands that can be pasted."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from flyball.bench.table import Row
from flyball.cli import demo
from flyball.cli.output import console
from flyball.cli.progress import progress_on

ROWS = [Row("flyball serve", 9000.0), Row("FastAPI, the better of def and async def", 3000.0), Row("bare ONNX Runtime")]


def shown_steps(*, terminal):
    out = Console(file=io.StringIO(), force_terminal=terminal, force_interactive=terminal, width=100)
    show_a_step(out)
    return out.file.getvalue()


def show_a_step(out):
    with progress_on(out) as progress:
        step = progress.begin("flyball serve", 2.0)
        step.update(1.0, "7 requests")
        step.end("9,000 req/s")


def test_away_from_a_terminal_a_step_is_one_plain_line():
    assert shown_steps(terminal=False) == "flyball serve: 9,000 req/s\n"


def test_in_a_notebook_which_forces_colour_on_a_pipe_a_step_is_one_plain_line(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    show_a_step(console())
    assert capsys.readouterr().out == "flyball serve: 9,000 req/s\n"


def test_on_a_terminal_a_step_is_a_bar():
    assert "━" in shown_steps(terminal=True)


@pytest.mark.parametrize("there", [True, False])
def test_the_next_commands_can_be_pasted_in_a_narrow_window(monkeypatch, tmp_path, there):
    tools = tmp_path / ".venv/bin"
    tools.mkdir(parents=True)
    (tools / "flyball").touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.executable", str(tools / "python"))
    monkeypatch.setenv("PATH", str(tools) if there else "/nowhere")
    out = Console(file=io.StringIO(), width=40)
    demo._print_results(out, ROWS, Path("fraud.onnx"))
    command = "flyball" if there else ".venv/bin/flyball"
    lines = out.file.getvalue().splitlines()
    assert f"  {command} serve fraud.onnx" in lines
    assert lines[-1].startswith("  echo ")
    assert lines[-1].endswith(f"| {command} predict fraud")
