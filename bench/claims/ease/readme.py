"""Topic: the README, followed in a clean environment that has nothing but the built wheel.

From `pip install` to a governed decision with reasons and a verified journal, by its own commands.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from bench.claims.bars import at_most, count, minutes
from bench.claims.claim import Claim, Figure, Topic
from flyball.errors import UsageError

if TYPE_CHECKING:
    from bench.claims.claim import Raw
    from bench.claims.tails.stand import Stand

COMMANDS_MAX, MINUTES_MAX, FOLLOWED = 8, 5, "readme"
_LAST = "flyball decisions verify"
_INSTALL = re.compile(r"^pip install .*\[(?P<extras>[a-z,]+)\]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Walk:
    """The part of README from `pip install` to the verified journal, with the extras that it installs."""

    extras: str
    page: str

    @property
    def commands(self) -> int:
        """`pip install`, the commands in consoles, and each Python block."""
        return 1 + self.page.count("\n$ ") + self.page.count("```python")


def walk_of(page: str) -> Walk:
    """Cut it from the page."""
    install = _INSTALL.search(page)
    if install is None:
        raise UsageError("README.md has no `pip install` line with extras", next_step="see bench/claims/ease/readme.py")
    return Walk(install["extras"], page[install.end() : page.index(_LAST) + len(_LAST)] + "\n```\n")


def measure(stand: Stand) -> None:
    """Install the wheel as the README says, then run its blocks up to the verified journal."""
    walk = walk_of(Path("README.md").read_text())
    wheels = sorted(Path("dist").glob("flyball-*.whl"))
    if not wheels:
        raise UsageError("dist/ has no wheel of flyball", next_step="build it:  make wheel")
    wheel = wheels[-1]
    began = time.monotonic()
    with TemporaryDirectory(prefix="fb-") as folder:
        environment = Path(folder, "venv")
        _run([sys.executable, "-m", "venv", str(environment)])
        python = environment / "bin" / "python"
        _run([str(python), "-m", "pip", "install", "-q", f"{wheel}[{walk.extras}]"])
        Path(folder, "page.md").write_text(walk.page)
        # The reader of the tests follows the page; only the programs on its path are those of the clean environment.
        followed = subprocess.run(
            [sys.executable, "-m", "tests.support.printed_pages", str(Path(folder, "page.md")), str(environment / "bin")],
            capture_output=True,
            text=True,
            check=False,
        )
    took_min = (time.monotonic() - began) / 60
    ended = followed.stderr.strip().splitlines()[-1:] if followed.returncode else []
    verified = followed.returncode == 0 and "verified" in followed.stdout
    stand.keep(FOLLOWED, {"commands": walk.commands, "minutes": took_min, "verified": verified, "end": "".join(ended)})


def _run(command: list[str]) -> None:
    environment = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONPATH")}
    subprocess.run(command, check=True, env=environment)


def _commands(raw: Raw) -> Figure:
    return Figure(raw[FOLLOWED]["commands"])


def _minutes(raw: Raw) -> Figure:
    found = raw[FOLLOWED]
    return Figure(found["minutes"], "", "" if found["verified"] else found["end"] or "no journal was verified")


TOPIC = Topic(
    "readme",
    measure,
    subject="the README, followed in a clean environment that has nothing but the built wheel",
    sample="once, with its own commands",
    claims=(
        Claim("commands", "commands to a verified journal", at_most(COMMANDS_MAX, count), _commands),
        Claim("minutes", "from `pip install` to a verified journal", at_most(MINUTES_MAX, minutes, "verified"), _minutes),
    ),
)
