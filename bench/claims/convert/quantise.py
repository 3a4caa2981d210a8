"""Topic: 8 bits for a 12 MB perceptron and a small CNN, accepted or refused by the accuracy gate."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from bench.claims.convert import networks
from flyball.bench.table import latency
from flyball.errors import FlyballError

if TYPE_CHECKING:
    from pathlib import Path

    from bench.claims.convert.networks import Trained
    from bench.claims.tails.stand import Stand

ROWS, PICTURES, QUICK_ROWS = 10_000, 1_500, 600
_SECONDS_MAX = 1800


def measure(stand: Stand) -> None:
    """Optimise each as a user would, and read the report."""
    rows = QUICK_ROWS if stand.quick else ROWS
    for name, trained in {
        "12 MB perceptron": networks.perceptron(stand.folder, rows),
        "CNN, 224 × 224": networks.pictures_net(stand.folder, QUICK_ROWS if stand.quick else PICTURES),
    }.items():
        stand.tell(f"{name}: optimising")
        _judge_gained(stand, name, optimised(stand, trained))
    _judge_hurt(stand, optimised(stand, networks.spoilt(stand.folder, rows)))


def optimised(stand: Stand, trained: Trained) -> dict[str, Any]:
    """`flyball optimize` in a process of its own; its report."""
    work = stand.folder / f"{trained.model.stem}.optimize"
    command = [
        *(sys.executable, "-m", "flyball", "optimize", str(trained.model), "--data", str(trained.rows)),
        *("--target", trained.labels, "--out", str(work), "--seconds", str(stand.seconds(3.0)), "--json"),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS_MAX, check=False)
    if ended.returncode != 0:
        raise FlyballError(f"{trained.model.name}: {ended.stderr.strip()[-300:]}")
    report: dict[str, Any] = json.loads(ended.stdout)
    return report


def chosen_of(stand: Stand, trained: Trained) -> Path:
    """The model that `optimised` left."""
    return stand.folder / f"{trained.model.stem}.optimize" / "chosen.onnx"


def _judge_gained(stand: Stand, name: str, report: dict[str, Any]) -> None:
    stand.keep(name, {"choice": report["choice"], "machine": report["machine"]})
    lines = {line["name"]: line for line in report["choice"]["lines"]}
    static = [line for line in lines.values() if line["name"].startswith("static-int8") and line["accepted"]]
    figure = "none of three ways"
    if static:
        best = min(static, key=lambda line: line["p50_us"])
        plain = lines["float32"]
        figure = (
            f"{best['name']}: {latency(plain['p50_us'])} to {latency(best['p50_us'])}, "
            f"{plain['p50_us'] / best['p50_us']:.2f} times as fast; {_lost(report, best['name'])}; {best['flips']:.2%} flips"
        )
    stand.report.record(f"{name}: static INT8 with the accuracy gate passed", figure, "one way or more", holds=bool(static))


def _lost(report: dict[str, Any], name: str) -> str:
    """What the gate saw of the accuracy."""
    candidates = report["steps"]["quantise"]["candidates"]
    verdict = next(one["verdict"] for one in candidates if one["name"] == name)
    told = [one for one in verdict["findings"] if one["what"] == "accuracy" and one["segment"] is None]
    return told[0]["words"] if told else "equal"


def _judge_hurt(stand: Stand, report: dict[str, Any]) -> None:
    lines = report["choice"]["lines"]
    taken = [line["name"] for line in lines if "int8" in line["name"] and line["accepted"] and "static" in line["name"]]
    why = next((line["why_not"] for line in lines if line["name"] == "static-int8"), "not tried")
    stand.keep("spoilt", report["choice"])
    figure = f"{', '.join(taken)} taken" if taken else why[:200]
    stand.report.record(
        "a model that 8 bits hurt: static INT8 refused by the gate", figure, "none is taken", holds=not taken
    )
