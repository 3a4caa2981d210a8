"""Runs `flyball decisions …` and parses its JSON. Must not know what is claimed."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from flyball.errors import FlyballError

if TYPE_CHECKING:
    from pathlib import Path

_TIMEOUT_S = 1_800.0


def decisions(journal: Path, *words: str, fails: bool = False) -> Any:
    """A verb's JSON output; `fails`: it may exit with an error and still print."""
    command = [sys.executable, "-m", "flyball", "decisions", *words, "--journal-folder", str(journal), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode and not fails:
        raise FlyballError(f"{' '.join(command[2:])} ended with {done.returncode}: {(done.stdout + done.stderr)[-600:]}")
    if words[0] == "query":  # a line is a row
        return [json.loads(line) for line in done.stdout.splitlines()]
    return json.loads(done.stdout)
