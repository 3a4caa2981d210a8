"""The README and the guides are run as they are printed.

In a ```console block every line after `$ ` is a command; a command that ends with ` &` is a server, and the
next command waits for its ready line; `kill %1` ends it. A ```python block is run with Python. What one page makes or
exports, its later commands find: a page has one folder and one environment of its own, in which only the path is set,
as `source .venv/bin/activate` does. The printed ports are replaced by free ones.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support import serving
from tests.support.serving import REPOSITORY, Server

EXAMPLES = sorted((REPOSITORY / "examples").glob("*/README.md"))
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs" / "guides").glob("*.md"))]
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTED = "127.0.0.1:8080"
ADMIN = "127.0.0.1:8100"


class Reader:
    """Follows one page: a folder, the server it started, the port that stands for the printed one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.printed: dict[str, str] = {}
        self.server: Server | None = None
        self.port, self.admin = serving.free_port(), serving.free_port()
        self.environment = {key: value for key, value in os.environ.items() if key != "ORT_DYLIB_PATH"}
        self.environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    def run(self, kind: str, text: str) -> None:
        text = text.replace(PRINTED, f"127.0.0.1:{self.port}").replace(ADMIN, f"127.0.0.1:{self.admin}")
        if kind == "python":
            self.expect_success([sys.executable, "-W", "ignore", "-c", text], text)
            return
        for command in commands(text):
            if command.endswith(" &"):
                self.serve(command.removesuffix(" &"))
            elif command == "kill %1":
                assert self.server is not None, "there is nothing to kill"
                self.close()
            elif command.startswith("export "):
                shown = self.expect_success(["bash", "-euc", f"{command}; env -0"], command)
                self.environment = dict(pair.split("=", 1) for pair in shown.split("\0") if "=" in pair)
            else:
                self.expect_success(["bash", "-euo", "pipefail", "-c", command], command)

    def serve(self, command: str) -> None:
        self.close()
        words = shlex.split(command)
        program = shutil.which(words[0], path=self.environment["PATH"])
        assert program, f"{words[0]} is not on the path that the page gives"
        words[0] = program
        if "--listen" not in words:
            words += ["--listen", f"127.0.0.1:{self.port}"]
        self.server = Server(words, self.folder, self.environment)

    def expect_success(self, command: list[str], shown: str) -> str:
        answer = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert answer.returncode == 0, f"$ {shown}\n{answer.stdout}{answer.stderr}"
        assert not answer.stdout.startswith('{"error"'), f"$ {shown}\n{answer.stdout}"  # curl ends with 0 all the same
        self.printed[shown] = answer.stdout
        return answer.stdout

    def close(self) -> None:
        if self.server is not None:
            ending = self.server.stop()
            assert ending.code == 0, ending.text
            self.server = None


LONG = {"benchmark.md", "explain-latency.md", "optimize.md", "records.md", "registry.md", "tails.md"}


def commands(text: str) -> list[str]:
    """The `$ ` lines of a block, with the lines that a backslash or an open quote continues."""
    found: list[str] = []
    going_on = False
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(line[2:])
        elif going_on:
            found[-1] += "\n" + line.removeprefix("> ")
        going_on = bool(found) and found[-1].endswith("\\") if (line.startswith("$ ") or going_on) else False
    return found


def read_by(page: Path) -> object:
    """Guides that take half a minute or more: their commands have tests of their own, and README walks the registry."""
    full = os.environ.get("FLYBALL_TESTS") == "full"
    long = pytest.mark.skipif(
        page.name in LONG and not full, reason="it takes half a minute or more: make test-full runs it"
    )
    return pytest.param(page, id=page.name, marks=long)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", [read_by(page) for page in PAGES])
def test_the_commands_of_a_page_work_as_printed(page: Path) -> None:
    followed(page)


@cache
def followed(page: Path) -> dict[str, str]:
    """What each command of a page printed; a page is run once, whoever asks."""
    with TemporaryDirectory() as folder:
        return follow(page, Path(folder))


def follow(page: Path, folder: Path) -> dict[str, str]:
    """Run every block of a page, in its order; gives what the commands printed."""
    blocks = BLOCK.findall(page.read_text())
    assert blocks, f"{page.name} shows no command"
    reader = Reader(folder)
    try:
        for kind, text in blocks:
            reader.run(kind, text)
        reader.close()
    finally:
        if reader.server is not None:
            reader.server.kill()
    return reader.printed


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: page.parent.name)
def test_an_example_runs_with_one_command_and_decides_as_its_readme_prints(page: Path, tmp_path: Path) -> None:
    folder = Path("examples", page.parent.name)
    shutil.copytree(page.parent, tmp_path / folder, ignore=shutil.ignore_patterns("made", "__pycache__"))
    shown = follow(page, tmp_path)[f"python {folder / 'run.py'}"]
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    assert outcomes(shown) == outcomes("".join(text for kind, text in blocks if not kind))


def outcomes(text: str) -> list[tuple[str, list[str]]]:
    """What was decided about each case and the code of the first reason: scores and small reasons are another machine's."""
    cases = re.findall(r"^(\S.*?) +(\w+) \(0\.\d+\)\n(?: {4}(\w+)  )?", text, re.MULTILINE)
    assert cases, text
    return [(title, [outcome, code]) for title, outcome, code in cases]


@pytest.mark.timeout(300)
def test_the_readme_s_own_model_shares_runs() -> None:
    assert "batching on" in followed(REPOSITORY / "README.md")["flyball inspect fraud.onnx"]


@pytest.mark.timeout(300)
def test_the_guide_for_triton_users_prints_what_inspect_prints() -> None:
    page = REPOSITORY / "docs/guides/from-triton.md"
    printed = re.search(r"^```\n(churn .*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    assert printed
    shown = followed(page)["flyball inspect --model-repository models"]
    assert [line.rstrip() for line in shown.partition("\nNext:")[0].splitlines()] == printed[1].splitlines()


def test_a_command_goes_on_after_a_backslash() -> None:
    assert commands("$ one \\\n  two\nprinted\n$ three\n") == ["one \\\n  two", "three"]
