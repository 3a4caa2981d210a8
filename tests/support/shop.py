"""A server with models and a decision for the tests of our client, and the data that they send it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support import serving
from tests.support.decision_folders import plain
from tests.support.onnx_models import GOOD
from tests.support.serving import Server
from tests.support.wire import metrics

SCHEMES = ["http", "grpc"]
NAN = float("nan")
MATRIX = [[0.1, 2.0, -3.5, 4.0], [1e-7, 0.0, 5.0, 6.25], [7.0, 8.0, 9.0, 1e6]]
GAPS = [[0.1, None, -3.5, 4.0], [1e-7, 0.0, None, 6.25], [7.0, 8.0, 9.0, None]]
NAMES = ["a", "b", "c", "d"]
INDEX = [30, 10, 20]
MANY = {"amounts": [[0.5, 1.0, 2.0], [3.0, 4.0, 5.5]], "count": [1, 2], "known": [True, False]}
CARDS: list[dict[str, Any]] = [
    {"card_id": "c-1", "amount": 12.5, "currency": "EUR", "country": "DE", "mcc": 5411},
    {"card_id": "c-2", "amount": 1200.0, "currency": "USD", "country": "FR", "mcc": None},
    {"card_id": "c-3", "amount": -1.0, "currency": "USD", "country": "FR", "mcc": 7},
]
FIELDS = list(CARDS[0])


def by_column(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in FIELDS}


def served(folder: Path, *more: str) -> Iterator[Server]:
    models = [str(GOOD[name](folder)) for name in ("linear", "many", "strings", "free_axis")]
    command = [*serving.flyball(), "serve", *models, "--decision", str(plain(folder)), "--listen", "127.0.0.1:0", *more]
    with serving.serving(command) as server:
        yield server


def connections(server: Server) -> float:
    return metrics(server).sum("flyball_connections")
