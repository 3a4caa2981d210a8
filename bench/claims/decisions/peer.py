"""card-fraud in FastAPI, orjson, NumPy and ONNX Runtime, as a good engineer would write it: no pandas, no inner framework.

Run by the python of bench/peers/.venvs/fastapi:  peer.py FOLDER --port 0      FOLDER is the example with its made/.
Prints `ready http://127.0.0.1:PORT` once it takes requests. One worker; uvloop and httptools. Validation, windows, the
lookup (from memory), the twelve transforms, the model, the six rules and the bands are those of card-fraud.yaml;
contributions of the model, which flyball adds to adverse outcomes, are left out here.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import socket
import sys
import time
import uuid
from collections import deque
from functools import cache
from pathlib import Path
from typing import Any

import mmh3
import numpy as np
import onnxruntime
import orjson
import uvicorn
from fastapi import FastAPI, Request, Response

HOUR_S = 3600.0
CURRENCIES, CHANNELS = ("EUR", "GBP", "USD"), ("chip", "contactless", "online")
FIELDS = {"card_id", "time", "amount", "currency", "country", "mcc", "channel", "distance_km"}
EDGES = (6.0, 9.0, 18.0, 22.0)


class Invalid(Exception):  # noqa: N818 - as one writes it in such a service
    """Fields that are not as they must be."""

    def __init__(self, faults: list[dict[str, Any]]) -> None:
        super().__init__()
        self.faults = faults


class Decision:
    """The model, the fitted values, the store and the windows."""

    def __init__(self, folder: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(
            str(folder / "made/card-fraud.onnx"), options, providers=["CPUExecutionProvider"]
        )
        self.countries = set((folder / "countries.txt").read_text().split())
        with (folder / "made/cards.csv").open(newline="") as file:
            self.homes = {row["card_id"]: row["home_country"] for row in csv.DictReader(file)}
        fitted = {one["op"]: one for one in json.loads((folder / "made/card-fraud.fitted.json").read_text())["transforms"]}
        self.mean, self.scale = fitted["standardize"]["mean"], fitted["standardize"]["scale"]
        self.median = fitted["impute"]["values"][0]
        self.codes, self.other = fitted["encode"]["maps"][0], fitted["encode"]["default"][0]
        self.windows: dict[str, deque[tuple[float, float]]] = {}
        self.row = np.empty((1, 16), np.float32)

    def decide(self, sent: dict[str, Any]) -> dict[str, Any]:
        """One row's decision."""
        row = self.check(sent)
        spent, payments = self.window(row["card_id"], row["time"], row["amount"])
        home = self.homes.get(row["card_id"])
        score = self.score(row, spent, payments, home)
        fired = rules(row, spent, payments, home)
        band = "pass" if score < 0.30 else "review" if score < 0.80 else "reject"
        outcomes = {band, *(outcome for outcome, _ in fired)}
        outcome = "reject" if "reject" in outcomes else "review" if "review" in outcomes else "pass"
        return {
            "id": str(uuid.uuid4()),
            "decision": "card-fraud",
            "outcome": outcome,
            "band": band,
            "score": score,
            "reasons": [{"code": code} for _, code in fired],
        }

    def check(self, sent: dict[str, Any]) -> dict[str, Any]:
        """The values, or every fault at once."""
        faults: list[dict[str, Any]] = [{"field": name, "allowed": "no such field"} for name in sent.keys() - FIELDS]
        card, amount, distance, mcc = sent.get("card_id"), sent.get("amount"), sent.get("distance_km"), sent.get("mcc", -1)
        if not isinstance(card, str) or len(card) > 64:
            faults.append({"field": "card_id", "allowed": "a text of at most 64 bytes"})
        if not isinstance(amount, int | float) or not 0 <= amount <= 100_000:
            faults.append({"field": "amount", "allowed": "0 to 100000"})
        if distance is not None and (not isinstance(distance, int | float) or not 0 <= distance <= 20_100):
            faults.append({"field": "distance_km", "allowed": "0 to 20100"})
        if not isinstance(mcc, int):
            faults.append({"field": "mcc", "allowed": "a whole number"})
        if not isinstance(sent.get("time"), int | float):
            faults.append({"field": "time", "allowed": "seconds since 1970"})
        if sent.get("currency") not in CURRENCIES:
            faults.append({"field": "currency", "allowed": CURRENCIES})
        if sent.get("channel") not in CHANNELS:
            faults.append({"field": "channel", "allowed": CHANNELS})
        if not isinstance(sent.get("country"), str):
            faults.append({"field": "country", "allowed": "a text"})
        if faults:
            raise Invalid(faults)
        country = sent["country"] if sent["country"] in self.countries else "other"
        return {**sent, "country": country, "mcc": mcc, "distance_km": distance}

    def window(self, card: str, at: float, amount: float) -> tuple[float, int]:
        """What the card spent in the last hour, and how often, this payment included."""
        recent = self.windows.setdefault(card, deque())
        while recent and recent[0][0] <= at - HOUR_S:
            recent.popleft()
        recent.append((at, amount))
        return sum(paid for _, paid in recent), len(recent)

    def score(self, row: dict[str, Any], spent: float, payments: int, home: str | None) -> float:
        """The twelve transforms and the model."""
        amount, spent = min(row["amount"], 20_000.0), min(spent, 20_000.0)
        distance, hour, weekday = row["distance_km"], row["time"] % 86_400 // 3600, (row["time"] // 86_400 + 3) % 7
        self.row[0] = (
            (math.log1p(amount) - self.mean[0]) / self.scale[0],
            (math.log1p(spent) - self.mean[1]) / self.scale[1],
            payments,
            math.log1p(amount * payments),
            self.median if distance is None else distance,
            distance is None,
            self.codes.get(str(row["mcc"]), self.other),
            sum(edge <= hour for edge in EDGES),
            weekday >= 5,
            math.nan if home is None else bucket(row["country"], home),
            *(row["currency"] == value for value in CURRENCIES),
            *(row["channel"] == value for value in CHANNELS),
        )
        return float(self.session.run(["probabilities"], {"input": self.row})[0][0, 1])


def rules(row: dict[str, Any], spent: float, payments: int, home: str | None) -> list[tuple[str, str]]:
    """Those that fire, with their codes."""
    amount, distance = row["amount"], row["distance_km"]
    fired = []
    if amount > 5000 and home is not None and row["country"] != home:
        fired.append(("review", "R07"))
    if payments > 20:
        fired.append(("reject", "R11"))
    if spent > 15_000:
        fired.append(("reject", "R12"))
    if row["channel"] == "online" and row["mcc"] == 7995 and amount > 1000:
        fired.append(("review", "R13"))
    if home is None:
        fired.append(("review", "R14"))
    if row["channel"] == "chip" and distance is not None and distance > 3000:
        fired.append(("review", "R15"))
    return fired


@cache
def bucket(country: str, home: str) -> int:
    """The corridor's hash; there are some hundred corridors."""
    return int(mmh3.hash(f"{country}|{home}", 0, signed=False)) % 64


def answer_of(document: dict[str, Any], status: int = 200, media_type: str = "application/json") -> Response:
    """A response by orjson."""
    return Response(orjson.dumps(document), status, media_type=media_type)


def make_app(decision: Decision) -> FastAPI:
    """The application; on the loop and without a body model, which is the fastest way there is in FastAPI."""
    app = FastAPI()

    @app.post("/v1/decisions/card-fraud")
    async def decide(request: Request) -> Response:
        body = orjson.loads(await request.body())
        began = time.perf_counter()
        try:
            if "rows" in body:
                rows = [{**decision.decide(one["input"]), "id": one["id"]} for one in body["rows"]]
                return answer_of({"decision": "card-fraud", "rows": rows})
            answer = decision.decide(body["input"])
        except Invalid as invalid:
            problem = {"title": f"{len(invalid.faults)} fields are invalid", "status": 422, "faults": invalid.faults}
            return answer_of(problem, 422, "application/problem+json")
        answer["took_us"] = (time.perf_counter() - began) * 1e6
        return answer_of(answer)

    return app


def main() -> None:
    """Serve until terminated."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=0)
    arguments = parser.parse_args()
    app = make_app(Decision(arguments.folder))
    listener = socket.create_server(("127.0.0.1", arguments.port), backlog=1024)
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http="httptools",
        proxy_headers=False,
        server_header=False,
        date_header=False,
        log_level="warning",
        access_log=False,
    )
    # The backlog holds what comes before the loop runs, so ready may be said now.
    sys.stdout.write(f"ready http://127.0.0.1:{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
