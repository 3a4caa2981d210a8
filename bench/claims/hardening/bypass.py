"""Topic `bypass`: forty tries to bypass a governed model's policy; all are refused and counted.

Must not know how the server is built: the tries are a stranger's.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench.claims.bars import none
from bench.claims.claim import Claim, Figure, Raw, Topic
from bench.claims.hardening.attempts import Build
from bench.claims.hardening.bypass_tries import CALLERS, run_all
from bench.claims.hardening.governed_server import INPUTS, PLAIN, governed

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand

TRIED, WANTED = "tries", 40


def measure(stand: Stand) -> None:
    """One line: how many of the tries were refused and recorded, beside calls that must be answered."""
    folder = stand.folder / "bypass"
    folder.mkdir()
    with governed(Build(Path().absolute()), folder, callers=CALLERS) as server:
        tried = run_all(server)
        answered = (
            server.decide("decider").status == 200
            and server.ask("POST", f"/v2/models/{PLAIN}/infer", INPUTS, "modeller").scores
        )
    tries = {one.name: {"refused": one.refused, "recorded": one.recorded, "told": one.told} for one in tried}
    stand.keep(TRIED, {"tries": tries, "answered": bool(answered)})


def _passed(raw: Raw) -> Figure:
    tries = raw[TRIED]["tries"]
    passed = [name for name, one in tries.items() if not (one["refused"] and one["recorded"])]
    faults = ["callers with a right are refused, too"] if not raw[TRIED]["answered"] else []
    faults += [f"{len(tries)} tries instead of {WANTED}"] if len(tries) != WANTED else []
    return Figure(len(passed), f"of {len(tries)}" + "".join(f": {name}" for name in passed[:1]), "; ".join(faults))


TOPIC = Topic(
    "bypass",
    measure,
    subject="attempts to reach a governed model past its policy, beside callers that have the right",
    sample=f"{WANTED} attempts",
    claims=(Claim("passed", "attempts that are not refused and recorded", none("callers with the right pass"), _passed),),
)
