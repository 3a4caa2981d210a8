"""Whatever a caller, a file or another server wrote: on a terminal it is text, and never more than the line it stands on."""

import io
import json
import sys

import pytest
from rich.table import Table
from rich.text import Text

from flyball.cli.app import _escaping
from flyball.cli.output import console, report
from flyball.cli.printable import printable, printable_lines
from flyball.errors import Fault, FlyballError, UnavailableError

HOSTILE = "a\x1b[2J\x1b]0;owned\x07b\nError: all is well\r\x9b31mc\u202etxt.exe\u2066d\x7f"
ACTS = {"\x1b", "\x07", "\r", "\x9b", "\u202e", "\u2066", "\x7f"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_a_terminal_obeys_is_escaped_and_all_else_is_kept() -> None:
    assert printable("größer 審査 🙂 \\ a\u0301") == "größer 審査 🙂 \\ a\u0301"
    assert printable("a\x1b[2J\nb\u202e") == "a\\u001b[2J\\u000ab\\u202e"
    assert printable_lines("a\n\tb\x1b") == "a\n\tb\\u001b"


def test_an_error_with_hostile_words_is_one_line_and_its_faults_one_each(capsys: pytest.CaptureFixture[str]) -> None:
    report(UnavailableError(HOSTILE, faults=[Fault(HOSTILE, HOSTILE, HOSTILE)], next_step="try again"))
    err = capsys.readouterr().err
    assert not ACTS & set(err)
    assert len(err.splitlines()) == 3
    report(FlyballError(HOSTILE), as_json=True)
    assert json.loads(capsys.readouterr().err)["error"] == HOSTILE


@pytest.mark.parametrize("printed", [HOSTILE, Text(HOSTILE), Text.assemble("x ", (HOSTILE, "bold"))])
def test_a_console_prints_hostile_text_on_one_line(printed: object, capsys: pytest.CaptureFixture[str]) -> None:
    console().print(printed, markup=False)
    out = capsys.readouterr().out
    assert not ACTS & set(out)
    assert out.count("\n") == 1


def test_the_line_ends_around_a_string_are_the_command_s_own(capsys: pytest.CaptureFixture[str]) -> None:
    console().print("\nNext:\n")
    console().print(Text("\nNext"))
    assert capsys.readouterr().out == "\nNext:\n\n\nNext\n"


def test_a_table_s_cells_and_heads_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("name", HOSTILE, box=None)
    table.add_row("x", Text(HOSTILE))
    console().print(table)
    assert not ACTS & set(capsys.readouterr().out)


def test_colours_are_still_colours_where_a_terminal_is(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    _escaping(lambda: console().print(Text("good\x1b[31m", style="bold red")))()
    assert "\x1b[1;31mgood\\u001b[31m\x1b[0m" in terminal.getvalue()


def test_what_a_verb_writes_by_itself_is_escaped_and_its_streams_are_put_back(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout

    def verb() -> None:
        sys.stdout.write(HOSTILE)
        sys.stderr.writelines([HOSTILE])
        raise FlyballError("x")

    with pytest.raises(FlyballError):
        _escaping(verb)()
    assert sys.stdout is before
    captured = capsys.readouterr()
    assert not ACTS & set(captured.out + captured.err)
