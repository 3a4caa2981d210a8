"""Topic: the README, followed in a clean environment that has nothing but the built wheel.

From `pip install` to a governed decision with reasons and a verified journal, by its own commands.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from flyball.errors import UsageError

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand

COMMANDS_MAX, MINUTES_MAX = 8, 5
_LAST = "flyball decisions verify"
_INSTALL = re.compile(r"^pip install .*\[(?P<extras>[a-z,]+)\]", re.MULTILINE)


def measure(stand: Stand) -> None:
    """Install the wheel as the README says, then run its blocks up to the verified journal."""
    page = Path("README.md").read_text()
    install = _INSTALL.search(page)
    if install is None:
        raise UsageError("README.md has no `pip install` line with extras", next_step="see bench/claims/ease/readme.py")
    (wheel,) = sorted(Path("dist").glob("flyball-*.whl"))[-1:]
    part = page[install.end() : page.index(_LAST) + len(_LAST)] + "\n```\n"
    commands = 1 + part.count("\n$ ") + part.count("```python")
    began = time.monotonic()
    with TemporaryDirectory(prefix="fb-") as folder:
        environment = Path(folder, "venv")
        _run([sys.executable, "-m", "venv", str(environment)])
        python = environment / "bin" / "python"
        _run([str(python), "-m", "pip", "install", "-q", f"{wheel}[{install['extras']}]"])
        Path(folder, "page.md").write_text(part)
        # The reader of the tests follows the page; only the programs on its path are those of the clean environment.
        followed = subprocess.run(
            [sys.executable, "-m", "tests.support.printed_pages", str(Path(folder, "page.md")), str(environment / "bin")],
            capture_output=True,
            text=True,
            check=False,
        )
    minutes = (time.monotonic() - began) / 60
    stand.report.keep("readme", {"stdout": followed.stdout, "stderr": followed.stderr[-4000:]})
    stand.report.record(
        "readme: commands to a verified journal", f"{commands}", f"<= {COMMANDS_MAX}", holds=commands <= COMMANDS_MAX
    )
    holds = followed.returncode == 0 and minutes <= MINUTES_MAX and "verified" in followed.stdout
    figure = f"{minutes:.1f} minutes" if followed.returncode == 0 else followed.stderr.strip().splitlines()[-1]
    stand.report.record("readme: from pip install to a verified journal", figure, f"<= {MINUTES_MAX} minutes", holds=holds)


def _run(command: list[str]) -> None:
    environment = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONPATH")}
    subprocess.run(command, check=True, env=environment)
