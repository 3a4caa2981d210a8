"""Follows a page of the docs as a reader does: runs its commands, and keeps the output that it shows true.

In a ```console block every line after `$ ` is a command, and the lines below it are its output; a command that ends with
` &` is a server, and the next command waits for its ready line; `kill %1` ends it. A ```python block is run with Python, and
a ```text block right below it is its output. What one page makes or exports, its later commands find: a page has one
folder and one environment of its own, in which only the path is set, as `source .venv/bin/activate` does. The printed ports
are replaced by free ones.

Output is compared without numbers, digests and times. Where its lines differ from run to run, the block says `varies`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support import serving
from tests.support.serving import REPOSITORY, Server

PRINTED = "127.0.0.1:8080"
ADMIN = "127.0.0.1:8100"
LINES_MAX, CHARACTERS_MAX = 24, 140
COMMAND_S = 300  # a whole benchmark on a busy machine
_BLOCK = re.compile(
    r"^```(?P<kind>console|python)(?P<varies> varies)?\n(?P<text>.*?)^```$(?:\n\n```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)


@dataclass(slots=True)
class Command:
    """A command with its continued lines, and the output that the page shows."""

    text: str
    output: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Followed:
    """What became of a page: the output of each command, the page with it, and where the two differ."""

    printed: dict[str, str]
    page: str
    differences: list[str]


class Reader:
    """Follows one page: a folder, the server it started, the port that stands for the printed one."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder = folder
        self.programs = programs
        self.server: Server | None = None
        self.port, self.admin = serving.free_port(), serving.free_port()
        self.environment = {key: value for key, value in os.environ.items() if key != "ORT_DYLIB_PATH"}
        self.environment["PATH"] = f"{programs}:{os.environ['PATH']}"

    def python(self, text: str) -> str:
        """Run a block; gives what it printed."""
        return self._expect_success([str(self.programs / "python"), "-W", "ignore", "-c", self._real(text)], text)

    def console(self, command: str) -> str:
        """Run one command; gives what it printed."""
        command = self._real(command)
        if command.endswith(" &"):
            self._serve(command.removesuffix(" &"))
        elif command == "kill %1":
            assert self.server is not None, "there is nothing to kill"
            self.close()
        elif command.startswith("export "):
            shown = self._expect_success(["bash", "-euc", f"{command}; env -0"], command)
            self.environment = dict(pair.split("=", 1) for pair in shown.split("\0") if "=" in pair)
        else:
            return self._expect_success(["bash", "-euo", "pipefail", "-c", command], command)
        return ""

    def shown(self, output: str) -> list[str]:
        """Output as a page shows it: the printed ports, no folder, a bounded number of lines."""
        output = output.replace(f"127.0.0.1:{self.port}", PRINTED).replace(f"127.0.0.1:{self.admin}", ADMIN)
        for folder in (self.folder, REPOSITORY):
            output = output.replace(f"{folder}/", "")
        lines = [line.rstrip() for line in output.strip("\n").splitlines()]
        return lines[:LINES_MAX] + ["…"] * (len(lines) > LINES_MAX)

    def _real(self, text: str) -> str:
        return text.replace(PRINTED, f"127.0.0.1:{self.port}").replace(ADMIN, f"127.0.0.1:{self.admin}")

    def _serve(self, command: str) -> None:
        self.close()
        words = shlex.split(command)
        program = shutil.which(words[0], path=self.environment["PATH"])
        assert program, f"{words[0]} is not on the path that the page gives"
        words[0] = program
        if "--listen" not in words:
            words += ["--listen", f"127.0.0.1:{self.port}"]
        self.server = Server(words, self.folder, self.environment)

    def _expect_success(self, command: list[str], shown: str) -> str:
        answer = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=COMMAND_S, check=False
        )
        assert answer.returncode == 0, f"$ {shown}\n{answer.stdout}{answer.stderr}"
        assert not answer.stdout.startswith('{"error"'), f"$ {shown}\n{answer.stdout}"  # curl ends with 0 all the same
        return answer.stdout

    def close(self) -> None:
        """End the server, which must end well."""
        if self.server is not None:
            ending = self.server.stop()
            assert ending.code == 0, ending.text
            self.server = None


def follow(page: str, folder: Path, programs: Path = Path(sys.executable).parent) -> Followed:
    """Run every block of a page, in its order, with the programs of this folder first on the path."""
    reader = Reader(folder, programs)
    printed: dict[str, str] = {}
    differences: list[str] = []

    def run(block: re.Match[str]) -> str:
        kind, varies, text = block["kind"], block["varies"] or "", block["text"]
        compared = [] if varies else differences
        if kind == "python":
            lines = reader.shown(reader.python(text))
            _compare("python", (block["output"] or "").splitlines(), lines, compared)
            output = "\n\n```text\n" + "".join(f"{_cut(line)}\n" for line in lines) + "```" if lines else ""
            return f"```python{varies}\n{text}```{output}"
        shown = []
        for command in commands(text):
            printed[command.text] = reader.console(command.text)
            lines = reader.shown(printed[command.text])
            _compare(command.text, command.output, lines, compared)
            shown += [f"$ {command.text}", *map(_cut, lines)]
        return f"```console{varies}\n" + "".join(f"{line}\n" for line in shown) + "```"

    assert _BLOCK.search(page), "the page shows no command"
    try:
        text = _BLOCK.sub(run, page)
        reader.close()
    finally:
        if reader.server is not None:
            reader.server.kill()
    return Followed(printed, text, differences)


def commands(text: str) -> list[Command]:
    """The `$ ` lines of a block with the lines that a backslash continues, and the output below each."""
    found: list[Command] = []
    continued = False
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:]))
            continued = line.endswith("\\")
        elif continued:
            found[-1].text += f"\n{line}"
            continued = line.endswith("\\")
        elif found:
            found[-1].output.append(line)
    return found


def _cut(line: str) -> str:
    return line if len(line) <= CHARACTERS_MAX else line[: CHARACTERS_MAX - 1] + "…"


def _compare(command: str, printed: list[str], shown: list[str], differences: list[str]) -> None:
    for is_printed, is_shown in zip_longest(printed, shown):
        if not same(is_printed or "", is_shown or ""):
            differences.append(f"$ {command}\n  the page shows:  {is_printed}\n  the command says:  {is_shown}")
            return


def same(printed: str, shown: str) -> bool:
    """Whether a line of a page, which may be cut, shows a line of output."""
    if len(printed) < CHARACTERS_MAX or not printed.endswith("…"):
        return masked(printed) == masked(shown)
    # Cut in the middle of a number or a digest, perhaps, which is masked as a whole only.
    begin = masked(re.sub(r"[\w.:-]*…$", "", printed)).rstrip("#")
    return masked(shown).startswith(begin)


_MASKS = (
    (re.compile(r"\x1b\[[0-9;]*m"), ""),
    (re.compile(r"[─━═█▁▂▃▄▅▆▇▏▎▍▌▋▊▉ ]+"), " "),
    (re.compile(r"\b[0-9a-f]{7,}(?:-[0-9a-f]{4,})*…?|\b[0-9a-f]{4}…"), "#"),
    (re.compile(r"\b(?=[A-Za-z0-9_-]*\d)[A-Za-z0-9_-]{20,}={0,2}"), "#"),
    (re.compile(r"[-+]?\d(?:[\d.,:_]*\d)?(?:e[-+]?\d+)?"), "#"),
    (re.compile(r"# ?(?:ns|µs|us|ms|s|min|h|B|kB|KB|MB|GB|KiB|MiB|GiB)\b"), "#"),
    (re.compile(r"#(?:[-T/ .]?#)*Z?"), "#"),
)


def masked(line: str) -> str:
    """A line without what differs from run to run: numbers with their units, digests, times, widths."""
    for pattern, replacement in _MASKS:
        line = pattern.sub(replacement, line)
    return line.strip()


if __name__ == "__main__":
    with TemporaryDirectory() as empty:
        sys.stdout.write(follow(Path(sys.argv[1]).read_text(), Path(empty), Path(sys.argv[2])).page)
