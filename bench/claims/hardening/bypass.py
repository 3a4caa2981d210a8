"""Topic `bypass`: forty tries to bypass a governed model's policy; all are refused and counted.

Must not know how the server is built: the tries are a stranger's.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench.claims.hardening.attempts import Build
from bench.claims.hardening.bypass_tries import CALLERS, TRIES, run_all
from bench.claims.hardening.governed_server import INPUTS, PLAIN, governed

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand


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
    held = [one for one in tried if one.refused and one.recorded]
    stand.keep("tries", {one.name: {"refused": one.refused, "recorded": one.recorded, "told": one.told} for one in tried})
    stand.report.record(
        "tries to reach a governed model around its policy",
        f"{len(held)} of {len(TRIES)} refused and recorded"
        + ("" if answered else "; and those with a right were refused, too"),
        f"{len(TRIES)} of 40, and those with a right are answered",
        holds=answered and len(held) == len(TRIES) == 40,
    )
