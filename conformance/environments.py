"""The clients of a run: source, version, and interpreter of each. Must not know the cases."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from bench.claims.tools import perf_analyzer
from bench.environments import install_lock
from bench.parts.here import NotHereError
from bench.peers.peers import choose, install, version
from conformance.groups import CLIENTS, KSERVE, OURS

HERE = Path(__file__).resolve().parent
LOCK = HERE / "requirements.lock"


def python(environment: str) -> Path:
    """The client's interpreter; creates its environment if missing."""
    if environment == OURS:
        return Path(sys.executable)
    made = install_lock(LOCK, HERE / ".venv") if environment == CLIENTS else install(choose([KSERVE])[0])
    if isinstance(made, str):
        raise NotHereError(f"cannot install {environment}: {made}")
    return made.python


def versions() -> dict[str, str]:
    """The version of every client."""
    locked = re.search(r"^tritonclient==(\S+)", LOCK.read_text(), re.MULTILINE)
    wheel = perf_analyzer().parents[1].glob("lib/python*/site-packages/tritonclient-*.dist-info")
    return {
        "tritonclient": locked[1] if locked else "unknown",
        "perf_analyzer": next((f"of the tritonclient {path.stem.partition('-')[2]} wheel" for path in wheel), "unknown"),
        "KServe SDK": version(choose([KSERVE])[0]),
        "curl": _curl(),
    }


def _curl() -> str:
    program = shutil.which("curl")
    if program is None:
        raise NotHereError("curl is not installed; install it: apt-get install curl")
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return said.split()[1]
