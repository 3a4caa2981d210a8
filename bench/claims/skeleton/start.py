"""Topic: seconds from process start to the first correct answer, and resident memory after 1,000 requests."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bench.claims.bars import Bar, at_most, below, times
from bench.claims.claim import Change, Claim, Figure, Raw, Topic
from bench.claims.skeleton import subjects
from bench.claims.skeleton.subjects import REPEATS
from bench.claims.subjects import ask, flyball_serve, flyballd
from bench.claims.tails.rivals import FASTAPI, fastapi, missing
from bench.peers.peers import STYLES
from flyball.bench.process import split_cpus
from flyball.bench.run import first_answer
from flyball.bench.table import latency, size

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from bench.claims.tails.stand import Stand
    from flyball.bench.process import Process

ASKED = 1000
STARTS = "cold_start_s and rss_bytes"
PEERS = {f"FastAPI, {style}": style for style in STYLES}


def measure(stand: Stand) -> None:
    """Start each server, ask it, and look at its memory; in turn."""
    if reason := missing(FASTAPI):
        stand.not_measured(reason)
        return
    gbdt, cpus = subjects.gbdt(stand), split_cpus()[0]
    starts: dict[str, Callable[[], AbstractContextManager[Process]]] = {
        "flyballd": lambda: flyballd(gbdt, stand.folder),
        "flyball serve": lambda: flyball_serve(gbdt),
        **{name: partial(fastapi, gbdt, style, cpus) for name, style in PEERS.items()},
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


_CHANGES = (
    Change(
        "subject",
        "GBDT of 300 trees; the quicker, and the smaller, of FastAPI's two styles beside it",
        "FastAPI is that of bench/peers, with orjson or msgspec and in an environment of its own.",
    ),
)


def _start(name: str, ours: str, bar: Bar) -> Claim:
    sentence = f"cold start of `{ours}` to its first right answer, over FastAPI's"
    return Claim(name, sentence, bar, partial(_cold, ours), changes=_CHANGES)


TOPIC = Topic(
    "start",
    measure,
    subject="GBDT of 300 trees; FastAPI in the style that starts fastest, or that is smallest, of four",
    sample=f"{REPEATS} starts of each, in turn, {ASKED:,} requests each",
    claims=(
        _start("flyballd", "flyballd", at_most(0.5, times)),
        _start("flyball-serve", "flyball serve", below(1, times)),
        Claim("memory", "resident memory of `flyballd` over FastAPI's", below(0.5, times), _memory, changes=_CHANGES),
    ),
)
