"""The decision of loan.yaml written by hand, as one would without flyball: a second reading of the same meaning.

Plain Python floats, one row at a time, no shared code and no reading of the YAML: two authors of one semantics are what
tests it. Only the model's run is the same ONNX Runtime.
"""

import math
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

CURRENCIES = ("EUR", "USD", "GBP", "¥")
COUNTRIES = ("DE", "FR", "日本", "ß", "other")
PAIRS = {"EUR|DE": 0.125, "USD|other": 0.75, "¥|日本": 0.3, "GBP|ß": 0.6}
EDGES = (0, 100, 500, 1000, 10000)
OUTCOMES = ("pass", "review", "reject")
NAN = math.nan
RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)")

Json = dict[str, Any]
Value = bool | int | float | str | None


@dataclass
class Decided:
    """What must come out for a row: faults by field, or outcome, band, score and the rules' reasons."""

    faults: set[str] = field(default_factory=set)
    outcome: str = ""
    band: str = ""
    score: float = NAN
    reasons: list[str] = field(default_factory=list)


class Loan:
    """The decision with its model."""

    def __init__(self, model: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 1  # several add up the trees in another order
        self.session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])

    def decide(self, rows: list[Json]) -> list[Decided]:
        checked = [check(row) for row in rows]
        sound = [values for values, faults in checked if not faults]
        scores = iter(self.scores([columns(values) for values in sound]) if sound else [])
        return [Decided(faults=faults) if faults else judge(values, next(scores)) for values, faults in checked]

    def scores(self, made: list[list[float]]) -> list[float]:
        """Each row alone: a large batch adds up the trees in another order, and the last bit may differ."""
        rows = np.array(made, dtype=np.float64).astype(np.float32)
        return [float(self.session.run(["probabilities"], {"x": row[None]})[0][0, 1]) for row in rows]


def check(row: Json) -> tuple[dict[str, Value], set[str]]:
    """The values of the fields, with defaults, and the fields that are not as the schema wants them."""
    values: dict[str, Value] = {}
    faults = {name for name in row if name not in FIELDS}
    for name, (required, default, take) in FIELDS.items():
        sent = row.get(name)
        if sent is None:  # null is the same as not sent
            values[name] = default
            if required:
                faults.add(name)
            continue
        values[name] = take(sent)
        if values[name] is None:
            faults.add(name)
    return values, faults


def is_number(sent: Any) -> bool:
    return isinstance(sent, int | float) and not isinstance(sent, bool)


def text(most: int) -> Any:
    return lambda sent: sent if isinstance(sent, str) and len(sent.encode()) <= most else None


def number(least: float, most: float) -> Any:
    def take(sent: Any) -> Value:
        if not is_number(sent):
            return None
        value = float(sent)  # a whole number beyond 64 bits is the double that is nearest
        return value if math.isfinite(value) and least <= value <= most else None

    return take


def whole(least: float, most: float) -> Any:
    def take(sent: Any) -> Value:
        if not is_number(sent) or (isinstance(sent, float) and (not math.isfinite(sent) or sent != int(sent))):
            return None
        value = int(sent)
        return value if -(2**63) <= value < 2**63 and least <= value <= most else None

    return take


def time(sent: Any) -> Value:
    """Nanoseconds since 1970."""
    if isinstance(sent, str):
        return nanoseconds(sent) if RFC3339.fullmatch(sent) else None
    if not is_number(sent) or not math.isfinite(sent):
        return None
    rest, seconds = math.modf(sent) if isinstance(sent, float) else (0.0, sent)
    value = int(seconds) * 10**9 + math.floor(abs(rest) * 1e9 + 0.5) * (1 if rest >= 0 else -1)
    return value if -(2**63) <= value < 2**63 else None


def nanoseconds(sent: str) -> Value:
    fraction = re.search(r"\.(\d+)", sent)
    try:
        moment = datetime.fromisoformat(re.sub(r"\.\d+", "", sent).replace("Z", "+00:00"))
    except ValueError:
        return None
    seconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    return seconds * 10**9 + (int(fraction[1].ljust(9, "0")) if fraction else 0)


def category(values: tuple[str, ...], unknown: str | None) -> Any:
    return lambda sent: None if not isinstance(sent, str) else sent if sent in values else unknown


FIELDS: dict[str, tuple[bool, Value, Any]] = {
    "customer": (True, None, text(40)),
    "amount": (True, None, number(0, 1_000_000)),
    "limit": (False, None, number(-math.inf, math.inf)),
    "age": (True, None, whole(18, 120)),
    "tries": (False, -1, whole(-math.inf, math.inf)),
    "currency": (True, None, category(CURRENCIES, None)),
    "country": (False, None, category(COUNTRIES, "other")),
    "online": (False, False, lambda sent: sent if isinstance(sent, bool) else None),
    "at": (False, None, time),
    "note": (False, None, text(64)),
}


def headroom(row: dict[str, Any]) -> float | None:
    return None if row["limit"] is None else row["limit"] - row["amount"]


def columns(row: dict[str, Any]) -> list[float]:
    """The model's columns, in its order."""
    limit = 750.5 if row["limit"] is None else row["limit"]
    room = headroom(row)
    room = 0.0 if room is None else min(max(room, -5000.0), 5000.0)
    pair = None if row["country"] is None else f"{row['currency']}|{row['country']}"
    return [
        math.log1p(row["amount"]),
        float(sum(edge <= limit for edge in EDGES)),
        float(row["limit"] is None),
        (float(row["age"]) - 41.3) / 13.1,
        (float(row["age"]) * float(row["tries"]) - 12.7) / 55.9,
        room * 0.0001 + 0.5,
        NAN if pair is None else PAIRS.get(pair, 0.37),
        *(float(row["currency"] == value) for value in ("EUR", "GBP", "USD", "¥")),
        NAN if row["country"] is None else -2.0 if row["country"] == "other" else float(COUNTRIES.index(row["country"])),
        -1.0 if row["note"] is None else float(murmur(row["note"].encode()) % 32),
        *parts(row["at"]),
        float(row["online"]),
    ]


def parts(at: int | None) -> list[float]:
    """Hour, weekday (Monday is 0) and whether it is Saturday or Sunday, by whole days since a Thursday."""
    if at is None:
        return [-1.0] * 3
    days, within = divmod(at, 86_400 * 10**9)
    weekday = (days + 3) % 7
    return [float(within // (3600 * 10**9)), float(weekday), float(weekday >= 5)]


def murmur(data: bytes) -> int:
    """MurmurHash3, x86, 32 bits, seed 0, from its description."""
    from sklearn.utils import murmurhash3_32

    return int(murmurhash3_32(data, seed=0, positive=True))


def judge(row: dict[str, Any], score: float) -> Decided:
    """Rules that fired, then the most severe of the band's outcome and theirs; a final one decides alone."""
    band = "pass" if score < 0.30 else "review" if score < 0.80 else "reject"
    if row["note"] == "vip":
        return Decided(outcome="pass", band=band, score=score, reasons=["R0"])
    room = headroom(row)
    fired = [
        (row["tries"] > 3, "reject", "R1"),
        (row["amount"] > 5000 and row["currency"] != "EUR", "review", "R2"),
        (row["limit"] is not None and row["amount"] > row["limit"] * 2.0, "reject", "R3"),
        (row["limit"] is None or row["limit"] < 100, "review", "R4"),
        (row["country"] == "日本" or (room is not None and room < 0), "review", "R5"),
    ]
    outcomes = [band, *(outcome for holds, outcome, _ in fired if holds)]
    reasons = [reason for holds, _, reason in fired if holds][:4]  # as many as an answer has by default
    return Decided(outcome=max(outcomes, key=OUTCOMES.index), band=band, score=score, reasons=reasons)
