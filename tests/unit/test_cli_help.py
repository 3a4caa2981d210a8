"""Help pages teach by example, and each example is a command that exists; shells complete verbs and options."""

import os
import re
import shlex
import subprocess
import sys
from typing import Any

import pytest
import typer

from flyball.cli import app as cli

EXAMPLE = re.compile(r"^ *(?:echo .+ \| )?(flyball .+?)(?: > \S+)?$", re.MULTILINE)
APPLICATION = typer.main.get_command(cli.application())


def commands() -> list[tuple[str, Any]]:
    """Every verb and group by its words."""
    found = []

    def walk(words: str, command: Any) -> None:
        found.append((words, command))
        for name, one in getattr(command, "commands", {}).items():
            walk(f"{words} {name}", one)

    for name, one in APPLICATION.commands.items():
        walk(name, one)
    return found


ALL = [pytest.param(words, command, id=words.replace(" ", "-")) for words, command in commands()]


@pytest.mark.parametrize(("words", "command"), ALL)
def test_a_help_page_has_an_example_of_its_own_verb(words: str, command: Any) -> None:
    examples = EXAMPLE.findall(command.help or "")
    assert any(re.match(rf"flyball {words}( |$)", example) for example in examples), f"flyball {words} --help"


@pytest.mark.parametrize(("words", "command"), ALL)
def test_the_examples_of_a_help_page_are_commands_that_exist(words: str, command: Any) -> None:
    for example in EXAMPLE.findall(command.help or ""):
        parse(shlex.split(example)[1:])


def parse(words: list[str]) -> None:
    """Read a command line without running it; raises for an unknown verb, option or value."""
    command, context = APPLICATION, None
    while True:
        context = command.make_context(command.name, list(words), parent=context)
        rest = [*getattr(context, "_protected_args", []), *context.args]
        if not hasattr(command, "commands") or not rest:
            return
        _, command, words = command.resolve_command(context, rest)
        assert command is not None


@pytest.mark.parametrize(
    ("typed", "position", "completed"),
    [
        ("flyball de", 1, "demo decide decisions"),
        ("flyball decisions ver", 2, "verify"),
        ("flyball serve --journal-f", 2, "--journal-folder"),
    ],
)
def test_bash_completes_verbs_and_options(typed: str, position: int, completed: str) -> None:
    asked = {"_FLYBALL_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(position)}
    ended = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv = ['flyball']; from flyball.cli import main; main()"],
        env=os.environ | asked,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.stdout.split() == completed.split(), ended.stderr
