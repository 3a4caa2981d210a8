"""Topic: the optimised CNN served one picture at a time, against the engine alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench.claims.bars import at_most, times
from bench.claims.claim import Claim, Topic
from bench.claims.convert import networks
from bench.claims.convert.quantise import PICTURES, QUICK_ROWS, chosen_of, optimised
from bench.claims.figures import median_over
from bench.claims.subjects import Subject
from flyball.bench.payloads import make_payloads

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand

BAR, REPEATS, PAYLOADS = 1.1, 7, 40
EXPORTED, CHOSEN = "as exported", "as chosen"


def measure(stand: Stand) -> None:
    """A lone caller with binary tensors; windows of the server and of the bare engine in turn."""
    trained = networks.pictures_net(stand.folder, QUICK_ROWS if stand.quick else PICTURES)
    optimised(stand, trained)
    with np.load(trained.rows) as kept:
        pictures = kept["input"][:PAYLOADS]
    for name, path in {EXPORTED: trained.model, CHOSEN: chosen_of(stand, trained)}.items():
        subject = Subject("cnn", path, make_payloads(path, PAYLOADS, seed=1, rows=lambda count: pictures[:count]), 3.0)
        with stand.serve(subject) as server:
            windows = stand.in_turn(
                {
                    "served": lambda: subject.load(server, 1, protocol="http-binary").latency_us.p50,  # noqa: B023
                    "bare": lambda: stand.bare(subject, 3.0).p50_us,  # noqa: B023
                },
                REPEATS,
            )
        stand.keep(name, windows)


TOPIC = Topic(
    "served",
    measure,
    subject="the CNN of 224 × 224, one picture at a time over HTTP with binary tensors, beside the bare engine",
    sample=f"{REPEATS} windows of 3 s a side, in turn",
    claims=(
        Claim(
            "exported",
            "as exported: p50 over the bare engine's",
            at_most(BAR, times),
            median_over(EXPORTED, "served", "bare"),
        ),
        Claim(
            "chosen",
            "as chosen, in 8 bits: p50 over the bare engine's",
            at_most(BAR, times),
            median_over(CHOSEN, "served", "bare"),
            shortfall="150 kB over loopback take 266 µs without any model, which is more than a tenth of 1.2 ms.",
        ),
    ),
)
