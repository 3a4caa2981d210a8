"""Random rows for loan.yaml from a seed, good and bad: missing, null, extreme, of a wrong type, unseen, in any script.

And the model, trained on the good ones. Knows the schema, not the decision's own code.
"""

import json
import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tests.reference import loan

WORDS = [
    "",
    "vip",
    "VIP",
    "straße",
    "日本",
    "é",
    "e\u0301",
    "🙂" * 6,
    "a|b",
    "null",
    "\u202eabc",
    "x" * 64,
    "x" * 65,
    "ü" * 33,
]
TIMES = [
    "2026-11-15T07:30:00Z", "1969-12-31T23:59:59.999999999Z", "2024-02-29T12:00:00+05:30", "1900-01-01T00:00:00Z",
    0, -1, 1763191800, 1763191800.25, -0.5, 253402300799,
]  # fmt: skip
ODD_TIMES = ["2026-02-30T00:00:00Z", "yesterday", "", "2026-11-15", 1e300, True]
ODD = ["text", "", True, 1e308, -1, 2**63, -(2**70), 3.5, "12"]
NESTED: list[Any] = [[], {}, [1], {"a": 1}]


def rows(count: int, seed: int) -> list[loan.Json]:
    """What a file of rows can hold too: known columns, no values inside values."""
    chance = random.Random(seed)
    return [row(chance) for _ in range(count)]


def wild(count: int, seed: int) -> list[loan.Json]:
    """What only a request can hold: names that no field has, lists and objects."""
    chance = random.Random(seed)
    made = []
    for _ in range(count):
        one = row(chance)
        if chance.random() < 0.5:
            one[chance.choice(list(loan.FIELDS))] = chance.choice(NESTED)
        if chance.random() < 0.5:
            one[chance.choice(["amout", "Amount", "x", "headroom", "日本"])] = 1
        made.append(one)
    return made


def row(chance: random.Random) -> loan.Json:
    made = {
        "customer": chance.choice(["c1", "c2", "日本" * 4, "é" * 12]) + str(chance.randrange(99)),
        "amount": chance.choice([0, -0.0, 1_000_000, 5000, 5000.000000000001, 5e-324, chance.expovariate(1 / 3000)]),
        "limit": chance.choice([0.0, 100, 99.99999999999999, 500.0, -3.5, 1e308, chance.uniform(0, 12_000), None]),
        "age": chance.choice([18, 120, 40.0, chance.randint(18, 120)]),
        "tries": chance.choice([0, 3, 4, -(2**53), 2**62, chance.randint(0, 5)]),
        "currency": chance.choice(loan.CURRENCIES),
        "country": chance.choice([*loan.COUNTRIES, "AT", "de", "", "日", "other "]),
        "online": chance.random() < 0.5,
        "at": chance.choice([*TIMES, chance.randint(0, 2 * 10**9)]),
        "note": chance.choice(WORDS[:12] if chance.random() < 0.97 else WORDS),
    }
    for name in [
        name for name in made if chance.random() < (0.02 if name in ("customer", "amount", "age", "currency") else 0.2)
    ]:
        made[name] = None
        if chance.random() < 0.5:
            del made[name]
    if chance.random() < 0.08:
        made[chance.choice(list(loan.FIELDS))] = chance.choice([*ODD, *ODD_TIMES])
    return made


def write_jsonl(path: Path, made: list[loan.Json]) -> Path:
    path.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in made))
    return path


def make_model(path: Path, seed: int = 7) -> Path:
    """A gradient-boosted ensemble over the columns, so that a row's score does not depend on its neighbours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the converters' own deprecations are not ours to mend
        import lightgbm
        from onnxmltools import convert_lightgbm
        from onnxmltools.convert.common.data_types import FloatTensorType

        checked = [loan.check(one) for one in rows(4000, seed)]
        x = np.array([loan.columns(values) for values, faults in checked if not faults], dtype=np.float64)
        x = x.astype(np.float32)
        noise = np.random.default_rng(seed).normal(size=len(x))
        y = (np.nan_to_num(x[:, 0]) / 4 - x[:, 5] + x[:, 6] + 0.3 * noise > 1.6).astype(np.int32)
        settings: dict[str, Any] = {"objective": "binary", "num_leaves": 15, "seed": seed, "verbose": -1, "num_threads": 1}
        booster = lightgbm.train(settings, lightgbm.Dataset(x, y), num_boost_round=60)
        types = [("x", FloatTensorType([None, x.shape[1]]))]
        model = convert_lightgbm(booster, initial_types=types, zipmap=False, target_opset=15)
    path.write_bytes(model.SerializeToString())
    return path
