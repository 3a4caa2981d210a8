"""Topic: seconds from process start to the first correct answer, and resident memory after 1,000 requests."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bench.claims.bars import Bar, at_most, below, times
from bench.claims.claim import Claim, Figure, Raw, Topic
from bench.claims.skeleton import subjects
from bench.claims.skeleton.subjects import REPEATS
from bench.claims.subjects import ask, fastapi, flyball_serve, flyballd
from flyball.bench.run import first_answer
from flyball.bench.table import latency, size

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand

ASKED = 1000
STARTS = "cold_start_s and rss_bytes"
PEERS = ("FastAPI def", "FastAPI async def")


def measure(stand: Stand) -> None:
    """Start each server, ask it, and look at its memory; in turn."""
    gbdt = subjects.gbdt(stand)
    starts = {
        "flyballd": lambda: flyballd(gbdt, stand.folder),
        "flyball serve": lambda: flyball_serve(gbdt),
        "FastAPI def": lambda: fastapi(gbdt, "def"),
        "FastAPI async def": lambda: fastapi(gbdt, "async"),
    }

    def once(name: str) -> dict[str, float]:
        with starts[name]() as server:
            seconds = first_answer(server.url, gbdt.name, gbdt.first, started=server.started)
            ask(server, gbdt, ASKED)
            return {"cold_s": seconds, "rss_bytes": server.rss_bytes()}

    stand.keep(STARTS, stand.in_turn({name: partial(once, name) for name in starts}, REPEATS))


def _cold(ours: str, raw: Raw) -> Figure:
    sides = raw.windows(STARTS)
    cold, peer = sides.median(ours, "cold_s"), min(sides.median(name, "cold_s") for name in PEERS)
    return Figure(cold / peer, f"{latency(cold * 1e6)}, FastAPI {latency(peer * 1e6)}")


def _memory(raw: Raw) -> Figure:
    sides = raw.windows(STARTS)
    held, peer = sides.median("flyballd", "rss_bytes"), min(sides.median(name, "rss_bytes") for name in PEERS)
    return Figure(held / peer, f"{size(int(held))}, FastAPI {size(int(peer))}")


def _start(name: str, ours: str, bar: Bar) -> Claim:
    return Claim(name, f"cold start of `{ours}` to its first right answer, over FastAPI's", bar, partial(_cold, ours))


TOPIC = Topic(
    "start",
    measure,
    subject="GBDT of 300 trees; the quicker, and the smaller, of FastAPI's two styles beside it",
    sample=f"{REPEATS} starts of each, in turn, {ASKED:,} requests each",
    claims=(
        _start("flyballd", "flyballd", at_most(0.5, times)),
        _start("flyball-serve", "flyball serve", below(1, times)),
        Claim("memory", "resident memory of `flyballd` over FastAPI's", below(0.5, times), _memory),
    ),
)
