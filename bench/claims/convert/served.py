"""Topic: the optimised CNN served one picture at a time, against the engine alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench.claims.convert import networks
from bench.claims.convert.quantise import PICTURES, QUICK_ROWS, chosen_of, optimised
from bench.claims.report import discarded, median
from bench.claims.subjects import Subject
from bench.claims.tails.stand import raw
from flyball.bench.payloads import make_payloads
from flyball.bench.table import latency

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand

BAR, REPEATS, PAYLOADS = 1.1, 7, 40


def measure(stand: Stand) -> None:
    """A lone caller with binary tensors; windows of the server and of the bare engine in turn."""
    trained = networks.pictures_net(stand.folder, QUICK_ROWS if stand.quick else PICTURES)
    optimised(stand, trained)
    with np.load(trained.rows) as kept:
        pictures = kept["input"][:PAYLOADS]
    for name, path in {"as exported": trained.model, "as chosen": chosen_of(stand, trained)}.items():
        subject = Subject("cnn", path, make_payloads(path, PAYLOADS, seed=1, rows=lambda count: pictures[:count]), 3.0)
        with stand.serve(subject) as server:
            windows = stand.in_turn(
                {
                    "served": lambda: subject.load(server, 1, protocol="http-binary").latency_us.p50,  # noqa: B023
                    "bare": lambda: stand.bare(subject, 3.0).p50_us,  # noqa: B023
                },
                REPEATS,
            )
        stand.keep(name, raw(windows))
        claim, bar = f"CNN {name}, one picture at a time: p50 over the bare engine", f"<= {BAR:g} times"
        if doubt := stand.doubt(windows):
            stand.report.not_measured(claim, bar, doubt)
            continue
        served, bare = (median(windows[side].values) for side in ("served", "bare"))
        figure = f"{served / bare:.3f} times ({latency(served)}, {latency(bare)})"
        stand.report.record(claim, figure, f"{bar}, {discarded(windows)}", holds=served / bare <= BAR)
