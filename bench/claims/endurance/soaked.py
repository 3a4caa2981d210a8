"""The soak's models and decisions with exact answers, its honest callers, and their tally.

Weights and inputs are whole numbers, so every right answer is known to the last bit. Must not know what is claimed.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bench.claims.decisions.specs import write_model

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PLAIN, SWING, GUARDED, PAY, LOOKED_UP = "fraud", "swing", "guarded", "pay", "looked-up"
WEIGHTS = {"1": (1.0, 2.0), "2": (2.0, 1.0)}
ACCOUNTS, EDGE = 200, 500
_TIMEOUT_S, _EXAMPLES_MAX = 30.0, 10

_HEAD = """
owner: claims@example.com
purpose: be asked for twenty minutes
slo: {timeout: 5s}
model: {path: sum.onnx, name: sum, columns: %s, score: "score[0]"}
policy:
  bands: {low: "< 500", high: ">= 500"}
  outcomes: [low, high, review]
"""
_PAY = (
    f"decision: {PAY}"
    + _HEAD % "[amount, rate]"
    + """
record: {durability: sync}
input:
  account: {type: string, key: true, pii: true}
  amount: {type: float, min: 0, max: 1000}
  rate: {type: float, min: 0, max: 1000}
"""
)
_LOOKED_UP = (
    f"decision: {LOOKED_UP}"
    + _HEAD % "[risk, amount]"
    + """
remedies: {feature_error: review}
input:
  account: {type: string, key: true}
  amount: {type: float, min: 0, max: 1000}
sources:
  accounts: {redis: "URL", timeout: 20ms, cache: {ttl: 50ms, absent_ttl: 50ms}}
features:
  risk: {lookup: accounts, key: account, field: risk, type: float, on_error: fault, on_missing: fault}
"""
)


def write_specs(folder: Path, redis_url: str) -> dict[str, Path]:
    """The two decisions, each beside its model."""
    paths = {}
    for name, text in {PAY: _PAY, LOOKED_UP: _LOOKED_UP.replace("URL", redis_url)}.items():
        (folder / name).mkdir(parents=True)
        write_model(folder / name / "sum.onnx", WEIGHTS["1"])
        paths[name] = folder / name / f"{name}.yaml"
        paths[name].write_text(text)
    return paths


@dataclass(slots=True)
class Tally:
    """What the callers got, by subject; an answer that is neither right nor a refusal that was expected is wrong."""

    right: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    remedied: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, subject: str, kind: str, answer: str = "") -> None:
        """One answer."""
        with self.lock:
            getattr(self, kind)[subject] += 1
            if kind == "wrong" and len(self.examples) < _EXAMPLES_MAX:
                self.examples.append(f"{subject}: {answer[:300]}")


class Caller(threading.Thread):
    """Asks one question after the other over one connection, and checks every answer."""

    def __init__(self, url: str, subject: str, key: str, *, tally: Tally, stop: threading.Event, seed: int) -> None:
        super().__init__(name=f"asks {subject}", daemon=True)
        self._host, self._subject, self._tally, self._stopped, self._seed = urlsplit(url).netloc, subject, tally, stop, seed
        self._headers = {"Content-Type": "application/json", "X-Api-Key": key}
        self._check: Callable[[int, int, dict[str, Any]], str] = {
            SWING: check_model,
            GUARDED: check_guarded,
            PAY: check_pay,
            LOOKED_UP: check_looked_up,
        }[subject]

    def run(self) -> None:
        """Until it is told to stop; a connection that breaks is a wrong answer."""
        connection = http.client.HTTPConnection(self._host, timeout=_TIMEOUT_S)
        number = self._seed
        while not self._stopped.wait(0.002):
            number += 7
            path, body = question(self._subject, number)
            try:
                connection.request("POST", path, json.dumps(body), self._headers)
                answer = connection.getresponse()
                text = answer.read()
                kind = self._check(number, answer.status, json.loads(text))
            except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
                kind, text = "wrong", f"{type(error).__name__}: {error}".encode()
                connection.close()
            self._tally.count(self._subject, kind, text.decode(errors="replace"))
        connection.close()


def question(subject: str, number: int) -> tuple[str, dict[str, Any]]:
    """A path and what is posted to it."""
    if subject in (SWING, GUARDED):
        data = [float(number % 300), float(number % 11)]
        inputs = [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": data}]
        return f"/v2/models/{subject}/infer", {"inputs": inputs}
    account, amount = f"a{number % ACCOUNTS}", float(number % 900)
    row = {"account": account, "amount": amount, **({"rate": 3.0} if subject == PAY else {})}
    return f"/v1/decisions/{subject}", {"input": row}


def check_model(number: int, status: int, answer: dict[str, Any]) -> str:
    """The weighted sum of whichever version answered."""
    if status != 200:
        return "wrong"
    first, second = WEIGHTS[answer["model_version"]]
    return _right(answer["outputs"][0]["data"] == [number % 300 * first + number % 11 * second])


def check_guarded(number: int, status: int, answer: dict[str, Any]) -> str:
    """Right while its signer is trusted; refused as unknown or unavailable while the key is revoked."""
    return "refused" if status in (404, 503) else check_model(number, status, answer)


def check_pay(number: int, status: int, answer: dict[str, Any]) -> str:
    """Amount and twice the rate, and the band that lies in."""
    return _right(status == 200 and _decided(answer, number % 900 + 2 * 3))


def check_looked_up(number: int, status: int, answer: dict[str, Any]) -> str:
    """Twice the amount and the account's risk; where Redis does not answer, the declared outcome and nothing else."""
    if status == 200 and answer.get("remedy"):
        return "remedied" if (answer["outcome"], answer["score"]) == ("review", None) else "wrong"
    return _right(status == 200 and _decided(answer, risk(number % ACCOUNTS) + 2 * (number % 900)))


def risk(account: int) -> int:
    """What Redis has of an account."""
    return account % 17


def _decided(answer: dict[str, Any], score: float) -> bool:
    return (answer["score"], answer["outcome"]) == (score, "low" if score < EDGE else "high")


def _right(holds: bool) -> str:
    return "right" if holds else "wrong"
