"""Prepares examples/card-fraud for load: its data, its model, many cards in its store, and requests.

Each request is for a card of its own, so that windows see ordinary payments and not one that is repeated a hundred times.
Must not know what is claimed.
"""

from __future__ import annotations

import csv
import http.client
import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from flyball.decision.decision import Decision
from flyball.errors import FlyballError
from flyball.native.load_documents import Arrivals, LoadPlan, Warmup

if TYPE_CHECKING:
    from flyball.bench.process import Process

EXAMPLE = Path("examples/card-fraud")
NAME = "card-fraud"
FIELDS = ("card_id", "time", "amount", "currency", "country", "mcc", "channel", "distance_km")
_MAKE_S = 300
_CHUNK_ROWS = 500


@dataclass(frozen=True, slots=True)
class Example:
    """The decision in a folder of its own, and its requests."""

    folder: Path
    rows: list[dict[str, Any]]

    def warm(self, url: str) -> None:
        """Every record in the cache, by payments of two hours ago, which no window counts any more.

        A window tells nothing before it has seen its whole length of event time, so some payments lead up to now.
        """
        ask_rows(url, [{**row, "time": row["time"] - 7200} for row in self.rows])
        first = self.rows[0]
        ask_rows(url, [{**first, "card_id": "warm", "time": first["time"] - before} for before in (3700, 1850, 60)])

    @property
    def index(self) -> Path:
        """Its snapshot, for flyballd."""
        return self.folder / "snapshot" / "index.json"

    def payloads(self) -> bytes:
        """Lines for the generator: a right answer has an outcome."""
        return b"\n".join(json.dumps({"body": {"input": row}, "holds": '"outcome":'}).encode() for row in self.rows)

    def plan(self, server: Process, cpus: list[int], **changes: Any) -> LoadPlan:
        """A closed loop, unless it is changed."""
        plan = LoadPlan(
            url=server.url,
            model=NAME,
            protocol="json",
            path=f"/v1/decisions/{NAME}",
            arrivals=Arrivals(kind="closed"),
            warmup=Warmup(least_s=0.5, most_s=0.5),
            timeout_ms=10_000,
            cpus=cpus,
        )
        return plan.model_copy(update=changes)


def make(folder: Path, cards: int, *, explain: str = "adverse") -> Example:
    """Copy the example, make its data, train its model, and fill its store with so many cards.

    `explain` says when the model's part in an outcome is told: `adverse` as the example has it, or `asked`.
    """
    here = folder / NAME
    shutil.copytree(EXAMPLE, here, ignore=shutil.ignore_patterns("made", "__pycache__"))
    for script in ("make_data.py", "train.py"):
        _run([sys.executable, script], here)
    rows = _rows(here / "made" / "payments.csv", cards)
    with (here / "made" / "cards.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["card_id", "home_country"])
        writer.writerows((row["card_id"], row.pop("home")) for row in rows)
    push = ["features", "push", "made/cards.csv", "--store", "made/cards.redb", "--set", "cards", "--key-column", "card_id"]
    _run([sys.executable, "-m", "flyball", *push], here)
    spec = here / f"{NAME}.yaml"
    text = spec.read_text()
    spec.write_text(text.replace("reasons: {", f"reasons: {{when: {explain}, "))
    Decision.load(spec).bundle().write(here / "snapshot")
    return Example(here, rows)


def ask_rows(url: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All rows, many to a request."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    decided: list[dict[str, Any]] = []
    try:
        for start in range(0, len(rows), _CHUNK_ROWS):
            asked = [{"id": str(at), "input": row} for at, row in enumerate(rows[start : start + _CHUNK_ROWS])]
            # Many rows take longer than the decision's own deadline for one.
            patience = {"X-Request-Timeout-Ms": "30000"}
            connection.request("POST", f"/v1/decisions/{NAME}", json.dumps({"rows": asked}).encode(), patience)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200:
                raise FlyballError(f"{url} answered {answer.status}: {body[:300]!r}")
            decided += json.loads(body)["rows"]
    finally:
        connection.close()
    return decided


def _rows(path: Path, cards: int) -> list[dict[str, Any]]:
    """Payments as they were made, now and by cards of their own; the same ones again where there are not enough."""
    with path.open(newline="") as file:
        payments = list(csv.DictReader(file))
    now = int(time.time())
    made = []
    for number in range(cards):
        paid = payments[number % len(payments)]
        row: dict[str, Any] = {name: paid[name] for name in FIELDS}
        row |= {"card_id": f"card-{number:06d}", "time": now, "amount": float(paid["amount"]), "mcc": int(paid["mcc"])}
        row["distance_km"] = float(paid["distance_km"]) if paid["distance_km"] else None
        made.append({**row, "home": paid["home"]})
    return made


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_MAKE_S, check=False)
    if done.returncode:
        raise FlyballError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-400:]}")
