"""Topic `attempts`: every known fault is tried again, compared with the build in which it was found.

Must not know what the attempts try.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING

from bench.claims.bars import none
from bench.claims.claim import Claim, Figure, Raw, Topic
from bench.claims.hardening.attempts import BEFORE, Build, all_attempts
from bench.claims.hardening.attempts.__main__ import try_one

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand


TRIED = "attempts"


def measure(stand: Stand) -> None:
    """Each attempt, with what the earlier build did beside it."""
    stored = json.loads(gzip.decompress(BEFORE.read_bytes()))
    build = Build(Path().absolute())
    tried: dict[str, dict[str, object]] = {}
    stand.keep(TRIED, tried)
    for attempt in all_attempts():
        seen = try_one(attempt, build)
        earlier = stored["attempts"].get(attempt.name, {"seen": "not tried"})
        before = {"commit": earlier.get("commit", stored["commit"]), "seen": earlier["seen"]}
        tried[attempt.name] = {"fault": attempt.fault, "before": before, "seen": seen.text, "holds": seen.holds}
        stand.tell(f"{attempt.name}: {'fixed' if seen.holds else 'STILL THERE'}; {seen.text}")


def _still_there(raw: Raw) -> Figure:
    tried = raw[TRIED]
    there = [f"{found['fault']} ({found['seen']})" for found in tried.values() if not found["holds"]]
    missing = {attempt.name for attempt in all_attempts()} - set(tried)
    fault = f"{len(missing)} attempts were not made, such as {min(missing)}" if missing else ""
    return Figure(len(there), f"of {len(tried)}" + "".join(f": {one}" for one in there[:1]), fault)


TOPIC = Topic(
    "attempts",
    measure,
    subject="every fault that attackers and users found, one script each",
    sample="each once",
    claims=(Claim("fixed", "faults of the list that are still there", none(), _still_there),),
)
