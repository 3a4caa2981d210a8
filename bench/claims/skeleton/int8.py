"""Topic: a model whose rows influence each other is served unbatched, so that load changes no answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.claims.bars import none
from bench.claims.claim import Claim, Figure, Raw, Topic
from bench.claims.skeleton import subjects
from bench.claims.skeleton.subjects import CONNECTIONS, WINDOW_S
from bench.claims.subjects import flyballd
from flyball.bench.stages import mean_batch_rows, metrics

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand


def measure(stand: Stand) -> None:
    """One window with every answer compared with the one that its row has alone."""
    int8 = subjects.int8(stand)
    with flyballd(int8, stand.folder) as ours:
        before = metrics(ours.url)
        result = int8.load_unchecked(ours, CONNECTIONS)
        batch = mean_batch_rows(before, metrics(ours.url), int8.name)
    stand.keep("window", result)
    stand.keep("mean_batch_rows", batch or 0.0)


def _differ(raw: Raw) -> Figure:
    window, batch = raw["window"], raw["mean_batch_rows"]
    fault = f"{window['failed']} failed: {window['first_problem']}" if window["failed"] or not window["answered"] else ""
    fault = fault or ("" if batch == 1 else f"mean batch {batch:.1f}")
    return Figure(window["mismatched"], f"of {window['answered']:,}, mean batch {batch:.1f}", fault)


TOPIC = Topic(
    "int8",
    measure,
    subject=f"dynamically quantised INT8 model, {CONNECTIONS} connections, closed loop",
    sample=f"one window of {WINDOW_S:g} s",
    claims=(Claim("differ", "answers that differ from the one the row has alone", none("mean batch 1"), _differ),),
)
