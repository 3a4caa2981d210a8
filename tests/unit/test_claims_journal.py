"""The judge of the flip report: pandas and scipy agree with it, and say so where it is wrong."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bench.claims.journal import cycles, replay
from flyball.decision_log.replay.candidate import Pair, Trial
from flyball.decision_log.replay.flips import figures
from flyball.decision_log.replay.report import trial_document
from flyball.errors import FlyballError


@pytest.fixture
def frame() -> pd.DataFrame:
    chance = np.random.default_rng(5)
    was = chance.choice(["low", "high"], 3000)
    now = np.where(chance.random(3000) < 0.2, chance.choice(["low", "high"], 3000), was)
    return pd.DataFrame({"was": was, "now": now, "country": chance.choice(["DE", "FR", "IT"], 3000)})


def reported(frame: pd.DataFrame) -> dict[str, Any]:
    trial = Trial("judged", "candidate", ["low", "high"], [], ("country",))
    for place, row in enumerate(frame.itertuples()):
        trial.pairs.append(Pair(str(place), row.was, row.now, None, None, (row.country,)))
    told: dict[str, Any] = json.loads(json.dumps(trial_document(trial, figures(trial, {}), 0)))
    return told


def test_pandas_and_scipy_have_the_same_flips_in_every_segment(frame: pd.DataFrame) -> None:
    assert replay.apart(frame, reported(frame)) == []


def test_one_flip_too_many_is_told(frame: pd.DataFrame) -> None:
    told = reported(frame)
    frame.loc[0, "now"] = "low" if frame.loc[0, "now"] == "high" else "high"
    assert replay.apart(frame, told)


def test_a_gauge_that_is_not_there_is_told() -> None:
    page = "# TYPE flyball_journal_loss_window_seconds gauge\nflyball_journal_loss_window_seconds 0.4\n"
    assert cycles.gauge(page, "flyball_journal_loss_window_seconds") == 0.4
    with pytest.raises(FlyballError, match="no flyball_other"):
        cycles.gauge(page, "flyball_other")
