"""Topic: saved models converted and served by one command each, compared with the originals; and a broken converter."""

from __future__ import annotations

import json
import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.claims.bars import at_most, none, plain
from bench.claims.claim import Claim, Figure, Raw, Topic
from bench.claims.convert import payments
from bench.claims.figures import wrong_of
from flyball.bench.process import Process
from flyball.client import Client
from flyball.errors import FlyballError, ModelRefusedError
from flyball.models import attribution
from flyball.models.convert import convert, from_lightgbm

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from bench.claims.convert.payments import Saved
    from bench.claims.tails.stand import Stand

BOUND, ROWS, SHIFTS, SHIFT = 1e-5, 10_000, 20, 0.1
_CHUNK = 500
BROKEN = "broken converters"


def measure(stand: Stand) -> None:
    """Three models, one after the other; then one whose converter moves a threshold, again and again."""
    asked = payments.odd(2000 if stand.quick else ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the packages' own deprecations
        data = payments.rows_file(stand.folder, ROWS)
        for make in (payments.pipeline, payments.lightgbm, payments.xgboost):
            saved = make(stand.folder)
            _served(stand, saved, data, asked)
            _explained(stand, saved, asked)
        _broken(stand, data)


def _served(stand: Stand, saved: Saved, data: Path, asked: Any) -> None:
    """One command to a server, and every row asked over HTTP."""
    out = _out(stand, saved)
    words = ["convert", str(saved.path), "--data", str(data), "--target", "fraud", "--out", str(out), "--name", "fraud"]
    command = [sys.executable, "-m", "flyball", *words, "--trust-pickle", "--serve", "--listen", "127.0.0.1:0"]
    with Process(command) as server, Client(server.url, deadline_ms=60_000) as client:
        found = _scores(client, payments.requests(asked))
    apart = np.abs(found - saved.predict(asked))
    told = json.loads((out / "conversion.json").read_text())["comparison"]["all"]
    gaps, unseen = int(asked.isna().any(axis=1).sum()), int((asked["country"] == payments.UNSEEN).sum())
    found_apart = {"rows": len(apart), "gaps": gaps, "unseen": unseen, "max_abs": float(apart.max())}
    stand.keep(f"{saved.name}: answers", {"converted": told, **found_apart})


def _scores(client: Client, rows: list[dict[str, Any]]) -> NDArray[np.float64]:
    found: list[float] = []
    for begin in range(0, len(rows), _CHUNK):
        for row in client.decide_rows("fraud", rows[begin : begin + _CHUNK]):
            if row.decided is None or row.decided.score is None:
                raise FlyballError(f"a row was refused: {row.fault}")
            found.append(row.decided.score)
    return np.array(found)


def _explained(stand: Stand, saved: Saved, asked: Any) -> None:
    """The data plane's contributions beside the package's, or, where it has none, their sum beside its answer."""
    few = asked[:1000]
    got = attribution.contributions((_out(stand, saved) / "model.trees.json").read_bytes(), saved.columns(few))
    wanted = saved.explained(few) if saved.explained else saved.predict(few)
    apart = float(np.abs((got if saved.explained else got.sum(axis=1)) - wanted).max())
    stand.keep(f"{saved.name}: contributions", {"rows": len(few), "max_abs": apart})


def _broken(stand: Stand, data: Path) -> None:
    """A converter that moves one threshold by a tenth, each time another one: no such model may be kept."""
    import lightgbm
    import onnx

    booster = lightgbm.Booster(model_file=str(stand.folder / "lightgbm.txt"))
    whole = from_lightgbm.to_onnx
    random = np.random.default_rng(payments.SEED)
    caught = 0
    shifts = 3 if stand.quick else SHIFTS

    def shifted(booster: Any, name: str) -> tuple[bytes, str, list[str]]:
        content, output, cut = whole(booster, name)
        made = onnx.load_from_string(content)
        held = {part.name: part for part in made.graph.node[0].attribute}
        numbers = [at for at, mode in enumerate(held["nodes_modes"].strings) if mode == b"BRANCH_LEQ"]
        place = int(random.choice(numbers))
        held["nodes_values"].floats[place] *= 1 + SHIFT
        return made.SerializeToString(), output, cut

    from_lightgbm.to_onnx = shifted
    try:
        for at in range(shifts):
            try:
                convert(booster, data=data, target="fraud", out=stand.folder / f"broken-{at}", name="fraud")
            except ModelRefusedError as refused:
                caught += refused.code == "not_equal" and '{"amount"' in refused.message
    finally:
        from_lightgbm.to_onnx = whole
    stand.keep(BROKEN, {"total": shifts, "wrong": shifts - caught})


def _out(stand: Stand, saved: Saved) -> Path:
    return stand.folder / f"out-{saved.name}"


def _answers(name: str) -> Callable[[Raw], Figure]:
    def figure(raw: Raw) -> Figure:
        found = raw[f"{name}: answers"]
        return Figure(
            found["max_abs"], f"{found['rows']:,} rows, {found['gaps']:,} with gaps, {found['unseen']:,} with an unseen text"
        )

    return figure


def _contributions(name: str) -> Callable[[Raw], Figure]:
    return lambda raw: Figure(raw[f"{name}: contributions"]["max_abs"], f"{raw[f'{name}: contributions']['rows']:,} rows")


_NAMES = {
    "scikit-learn": "beside its answer, in sum",
    "LightGBM": "beside the package's own",
    "XGBoost": "beside the package's own",
}
TOPIC = Topic(
    "equal",
    measure,
    subject="a pickled scikit-learn pipeline with categories, a LightGBM and an XGBoost model, each from its file to a "
    "served decision by one command",
    sample=f"{ROWS:,} rows over HTTP, with gaps and strings that training has not seen",
    claims=(
        *(
            Claim(
                f"{name}-answers",
                f"{name}: answers beside the original's, apart",
                at_most(BOUND, plain),
                _answers(name),
            )
            for name in _NAMES
        ),
        *(
            Claim(
                f"{name}-contributions",
                f"{name}: contributions {what}, apart",
                at_most(BOUND, plain),
                _contributions(name),
                sample="1,000 rows",
            )
            for name, what in _NAMES.items()
        ),
        Claim(
            "broken",
            f"converters with a threshold shifted by {SHIFT:.0%} that are not caught with their rows",
            none(),
            wrong_of(BROKEN),
            sample=f"{SHIFTS} shifted thresholds",
        ),
    ),
)
