"""Topic `attempts`: every known fault is tried again, compared with the build in which it was found.

Must not know what the attempts try.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING

from bench.claims.hardening.attempts import BEFORE, Build, all_attempts
from bench.claims.hardening.attempts.__main__ import try_one

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand


def measure(stand: Stand) -> None:
    """One line for each fault; its bar shows what the earlier build did."""
    stored = json.loads(gzip.decompress(BEFORE.read_bytes()))
    build = Build(Path().absolute())
    for attempt in all_attempts():
        stand.tell(attempt.name)
        seen = try_one(attempt, build)
        earlier = stored["attempts"].get(attempt.name, {"seen": "not tried"})
        before, commit = earlier["seen"], earlier.get("commit", stored["commit"])
        stand.keep(attempt.name, {"fault": attempt.fault, "before": before, "seen": seen.text, "holds": seen.holds})
        stand.report.record(attempt.fault, seen.text, f"{commit}: {before}", holds=seen.holds)
