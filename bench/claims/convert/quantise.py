"""Topic: 8 bits for a 12 MB perceptron and a small CNN, accepted or refused by the accuracy gate."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from bench.claims.bars import at_least, none
from bench.claims.claim import Claim, Figure, Raw, Topic
from bench.claims.convert import networks
from flyball.bench.table import latency
from flyball.errors import FlyballError

if TYPE_CHECKING:
    from pathlib import Path

    from bench.claims.convert.networks import Trained
    from bench.claims.tails.stand import Stand

ROWS, PICTURES, QUICK_ROWS = 10_000, 1_500, 600
_SECONDS_MAX = 1800
PERCEPTRON, CNN, SPOILT = "12 MB perceptron", "CNN, 224 × 224", "spoilt"


def measure(stand: Stand) -> None:
    """Optimise each as a user would, and read the report."""
    rows = QUICK_ROWS if stand.quick else ROWS
    for name, trained in {
        PERCEPTRON: networks.perceptron(stand.folder, rows),
        CNN: networks.pictures_net(stand.folder, QUICK_ROWS if stand.quick else PICTURES),
    }.items():
        stand.tell(f"{name}: optimising")
        _keep(stand, name, optimised(stand, trained))
    _keep(stand, SPOILT, optimised(stand, networks.spoilt(stand.folder, rows)))


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


def _keep(stand: Stand, name: str, report: dict[str, Any]) -> None:
    fields = ("name", "accepted", "p50_us", "flips", "why_not")
    lines = [{field: line.get(field) for field in fields} for line in report["choice"]["lines"]]
    lost = {line["name"]: _lost(report, line["name"]) for line in lines if line["name"].startswith("static-int8")}
    stand.keep(name, {"lines": lines, "lost": lost})


def _lost(report: dict[str, Any], name: str) -> str:
    """What the gate saw of the accuracy."""
    candidates = report["steps"]["quantise"]["candidates"]
    verdict = next((one["verdict"] for one in candidates if one["name"] == name), None) or {"findings": []}
    told = [one for one in verdict["findings"] if one["what"] == "accuracy" and one["segment"] is None]
    return told[0]["words"] if told else "equal"


def _best(raw: Raw, name: str) -> Figure:
    """How many ways the gate accepted, and what the best of them gained and lost."""
    report = raw[name]
    lines = {line["name"]: line for line in report["lines"]}
    accepted = [line for line in lines.values() if line["name"].startswith("static-int8") and line["accepted"]]
    if not accepted:
        return Figure(0)
    best, before = min(accepted, key=lambda line: line["p50_us"]), lines["float32"]["p50_us"]
    told = f"{best['name']}: {latency(before)} to {latency(best['p50_us'])}, {before / best['p50_us']:.2f} times as fast"
    return Figure(len(accepted), f"{told}; {report['lost'].get(best['name'], 'equal')}; {best['flips']:.2%} flips")


def _taken(raw: Raw) -> Figure:
    lines = raw[SPOILT]["lines"]
    taken = [line["name"] for line in lines if line["name"].startswith("static-int8") and line["accepted"]]
    why = next((line["why_not"] for line in lines if line["name"] == "static-int8"), None)
    return Figure(len(taken), ", ".join(taken) or str(why)[:200], "" if why or taken else "it was not tried")


TOPIC = Topic(
    "quantise",
    measure,
    subject="`flyball optimize` on a 12 MB perceptron, a small CNN, and a perceptron that 8 bits hurt",
    sample=f"{ROWS:,} rows, {PICTURES:,} pictures",
    claims=(
        *(
            Claim(name, f"{title}: ways of static INT8 that pass the accuracy gate", at_least(1), partial(_best, name=title))
            for name, title in {"perceptron": PERCEPTRON, "cnn": CNN}.items()
        ),
        Claim("hurt", "a model that 8 bits hurt: ways of static INT8 that are accepted", none(), _taken),
    ),
)
