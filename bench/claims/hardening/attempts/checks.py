"""Attempts on gaps in `check` and `plan`, windows that nobody can fill, and decisions without a model."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from bench.claims.hardening.attempts import Seen, attempt
from bench.claims.hardening.commands import asked, flyball, linear, serving

if TYPE_CHECKING:
    from pathlib import Path

    from bench.claims.hardening.attempts import Build

_SPEC = """
decision: card
owner: risk
purpose: sound, and full of surprises
input:
  card_id: {type: string, key: true}
  amount: {type: float}
  at: {type: time, required: false}
event_time: at
features:
  spent_36h: {window: sum(amount) by card_id last 36h}
  forgotten: {compute: amount * 3.0, type: float}
model: {path: m.onnx, columns: [amount, spent_36h], score: score}
policy:
  rules:
    - {when: amount > 900.0, then: reject}
    - {when: amount > 500.0, then: review, reason: R7}
  bands: {pass: "< 0.5", review: "< 0.8", reject: ">= 0.8"}
"""


def _warned(build: Build, folder: Path, *words: str, across: bool = False) -> Seen:
    """Whether check and plan say these words, and let the decision pass all the same."""
    linear(folder / "m.onnx", 2, across=across)
    (folder / "card.yaml").write_text(_SPEC)
    said, codes = [], []
    for verb in ("check", "plan"):
        ran = flyball(build, folder, verb, "card.yaml", COLUMNS="1000")
        codes.append(ran.returncode)
        lines = [
            line for line in ran.stdout.splitlines() if line.startswith("warning") and all(word in line for word in words)
        ]
        said.append(lines[0].strip() if lines else "")
    shown = said[0] or f"nothing is said of {words[0]}"
    return Seen(f"{shown[:170]} (exit {codes[0]})", holds=all(said) and codes == [0, 0])


@attempt("check and plan say nothing of adverse outcomes that come without a reason")
def adverse_outcomes_without_reasons(build: Build, folder: Path) -> Seen:
    """A rule rejects, and the customer is not told why."""
    return _warned(build, folder, "policy.rules[0]", "adverse", "reason")


@attempt("check and plan say nothing of reason codes without a text")
def reason_codes_without_text(build: Build, folder: Path) -> Seen:
    """R7 is all that the caller gets."""
    return _warned(build, folder, "R7", "text")


@attempt("check and plan say nothing of windows that take 36 hours to fill")
def windows_that_take_long_to_fill(build: Build, folder: Path) -> Seen:
    """Until then the feature is missing."""
    return _warned(build, folder, "spent_36h", "36 hours")


@attempt("check and plan say nothing of a model whose requests cannot share a run")
def batching_that_is_off(build: Build, folder: Path) -> Seen:
    """A model whose answer to one row depends on the other rows of its run."""
    return _warned(build, folder, "batching is off", across=True)


@attempt("check and plan say nothing of features that nobody uses")
def features_that_nobody_uses(build: Build, folder: Path) -> Seen:
    """It is computed for every request."""
    return _warned(build, folder, "forgotten", "nobody")


@attempt("windows cannot be filled from past events: a new server waits for a whole window")
def windows_cannot_be_filled(build: Build, folder: Path) -> Seen:
    """Thirty-seven hours of payments are at hand; a server that starts must know the last 36."""
    linear(folder / "m.onnx", 2)
    (folder / "card.yaml").write_text(_SPEC)
    now, lines = int(time.time()), []
    for hour in range(37, 0, -1):
        lines.append(json.dumps({"card_id": "c-1", "amount": 1.0, "at": now - hour * 3600}))
    (folder / "rows.jsonl").write_text("\n".join(lines) + "\n")
    words = ("features", "backfill", "card.yaml", "--data", "rows.jsonl", "--features-folder", "features")
    ran = flyball(build, folder, *words)
    if ran.returncode:
        return Seen(f"exit {ran.returncode}: {' '.join(ran.stderr.split())[:120]}", holds=False)
    again = flyball(build, folder, *words)
    (folder / "server.json").write_text(json.dumps({"features_folder": str(folder / "features")}))
    command = [build.flyball, "serve", "--decision", "card.yaml", "--listen", "127.0.0.1:0", "--config", "server.json"]
    with serving(command, folder) as address:
        row = {"card_id": "c-1", "amount": 1.0, "at": now}
        status, text = asked(f"http://{address}/v1/decisions/card", {"input": row})
    score = json.loads(text).get("score")
    full = status == 200 and score is not None and abs(score - 0.01 * (1.0 + 37.0)) < 0.011
    text = f"{ran.stdout.strip()[:80]}; the first decision's score is {score}; a second run: exit {again.returncode}"
    return Seen(text, holds=full and again.returncode != 0)


_RULES = """
decision: limits
owner: risk
purpose: rules alone
input:
  amount: {type: float}
features:
  twice: {compute: amount * 2.0, type: float}
policy:
  outcomes: [pass, review, reject]
  rules:
    - {when: amount > 1000.0, then: reject, reason: R1}
    - {when: twice <= 100.0, then: pass}
  reasons: {texts: {R1: the amount is above the limit}}
"""


@attempt("a decision of rules alone, without any model, is refused")
def rules_only_decision(build: Build, folder: Path) -> Seen:
    """check, plan, decide through a server, and score."""
    (folder / "limits.yaml").write_text(_RULES)
    (folder / "rows.csv").write_text("amount\n5\n500\n5000\n")
    for words in (
        ("check", "limits.yaml"),
        ("plan", "limits.yaml"),
        ("score", "limits.yaml", "--data", "rows.csv", "--out", "out.csv"),
    ):
        ran = flyball(build, folder, *words)
        if ran.returncode:
            return Seen(
                f"{words[0]}: exit {ran.returncode}: {' '.join((ran.stdout + ran.stderr).split())[:120]}", holds=False
            )
    command = [build.flyball, "serve", "--decision", "limits.yaml", "--listen", "127.0.0.1:0"]
    with serving(command, folder) as address:
        answers = [asked(f"http://{address}/v1/decisions/limits", {"input": {"amount": n}}) for n in (5, 500, 5000)]
    outcomes = [json.loads(text).get("outcome") for _, text in answers]
    return Seen(f"5, 500 and 5000 are {', '.join(map(str, outcomes))}", holds=outcomes == ["pass", "review", "reject"])
