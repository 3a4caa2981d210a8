"""Topic: the data plane's tree contributions against LightGBM's `pred_contrib`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench.claims.bars import at_most, plain
from bench.claims.claim import Claim, Figure, Topic
from flyball.models.attribution import contributions, trees_sidecar

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand

ROWS, COLUMNS, TREES, SEED = 1_000, 24, 300, 20261115
WITHIN = 1e-5


def measure(stand: Stand) -> None:
    """300 trees that met missing values, on rows that have some too."""
    import lightgbm

    random = np.random.default_rng(SEED)
    x = random.normal(size=(20_000, COLUMNS)).astype(np.float32)
    x[random.random(x.shape) < 0.05] = np.nan
    filled = np.nan_to_num(x)
    y = (filled[:, 0] * filled[:, 1] + filled[:, 2] - np.abs(filled[:, 3]) > 0.1).astype(np.int32)
    settings = {"objective": "binary", "num_leaves": 31, "seed": SEED, "verbose": -1, "num_threads": 1}
    booster = lightgbm.train(settings, lightgbm.Dataset(x, y), num_boost_round=TREES)
    rows = x[random.choice(len(x), ROWS, replace=False)]
    ours = contributions(trees_sidecar(booster), rows)
    theirs = np.asarray(booster.predict(rows, pred_contrib=True))
    margins = np.asarray(booster.predict(rows, raw_score=True))
    apart = float(np.abs(ours - theirs).max())
    sums = float(np.abs(ours.sum(axis=1) - margins).max())
    stand.keep("apart", {"rows": ROWS, "contributions": apart, "sums": sums})


TOPIC = Topic(
    "contributions",
    measure,
    subject=f"LightGBM, {TREES} trees over {COLUMNS} columns, some values missing; the data plane's contributions",
    sample=f"{ROWS:,} rows",
    claims=(
        Claim(
            "contributions",
            "contributions beside `pred_contrib`, the largest difference",
            at_most(WITHIN, plain),
            lambda raw: Figure(raw["apart"]["contributions"]),
        ),
        Claim(
            "sums",
            "their sums beside the raw margin, the largest difference",
            at_most(WITHIN, plain),
            lambda raw: Figure(raw["apart"]["sums"]),
        ),
    ),
)
