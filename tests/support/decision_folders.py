"""Small decisions for the tests: a folder with a model, its files, and a spec that uses every part."""

import random
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

import flyball
from tests.support import onnx_models

COLUMNS = ["amount", "currency=EUR", "currency=USD", "country=DE", "country=FR", "country=other", "spent_1h", "risk"]

WHOLE = """\
decision: card-fraud
owner: payments-risk@example.com
purpose: score card payments before authorisation
slo: {p99: 5ms, timeout: 200ms, rate: 2000/s}

input:
  card_id:  {type: string, key: true, pii: true}
  amount:   {type: float, min: 0, max: 100000}
  currency: {type: category, values: [EUR, USD]}
  country:  {type: category, values_file: countries.txt, unknown: other}
  mcc:      {type: int, missing: -1}
  at:       {type: time, required: false}

features:
  spent_1h:    {window: sum(amount) by card_id last 1h}
  payments_1h: {window: count() by card_id last 1h excluding current}
  risk:        {lookup: cards, key: card_id, type: float, max_age: 10m, on_missing: 0.5, on_error: use_stale}
  large:       {compute: "amount > 1000.0", type: bool}

sources:
  cards: {store: cards.store}

transforms:
  - log1p: amount
  - standardize: {of: [amount, spent_1h], mean: [3.0, 50.0], scale: [1.5, 80.0]}
  - one_hot: [currency, country]
  - clip: {of: risk, min: 0, max: 1}

model:
  path: fraud.onnx
  columns: from transforms
  score: probabilities[1]

policy:
  guard: {score: 0..1, amount: 0..}
  rules:
    - {when: amount > 5000.0 && country != 'DE', then: review, reason: R07}
    - {when: payments_1h > 20, then: reject, reason: R11}
  bands: {pass: "< 0.30", review: "< 0.80", reject: ">= 0.80"}
  reasons: {from: contributions, most: 4, texts: reasons.csv}

remedies:
  model_unavailable: rules
  timeout:           rules
  feature_error:     review
  queue_full:        shed
  guard_violated:    review
"""


def folder(path: Path, spec: str = WHOLE) -> Path:
    """A folder with everything that the spec names; gives the spec's file."""
    fraud_model(path)
    (path / "countries.txt").write_text("DE\nFR\n")
    (path / "reasons.csv").write_text("code,text,field\nR07,large and from abroad,\nR11,many payments,\nR02,amount,amount\n")
    file = path / "card-fraud.yaml"
    file.write_text(spec)
    return file


def fraud_model(path: Path, name: str = "fraud", columns: int = len(COLUMNS)) -> Path:
    """A logistic model over the columns: probabilities of both classes."""
    x = onnx_models.value("input", TensorProto.FLOAT, ["n", columns])
    y = onnx_models.value("probabilities", TensorProto.FLOAT, ["n", 2])
    weights = np.resize(np.float32([0.8, 0.5, -0.1, 0.2, -0.3, 0.1, 0.4, 1.5]), columns)
    constants = {"w": np.stack([-weights / 2, weights / 2], axis=1), "b": np.float32([0.4, -0.4])}
    nodes = [
        helper.make_node("Gemm", ["input", "w", "b"], ["margins"]),
        helper.make_node("Softmax", ["margins"], ["probabilities"], axis=1),
    ]
    return onnx_models.save(path / f"{name}.onnx", nodes, [x], [y], constants)


def whole(path: Path, spec: str = WHOLE) -> flyball.Decision:
    """The decision of such a folder."""
    return flyball.Decision.load(folder(path, spec))


PLAIN = """\
decision: plain
owner: tests@example.com
purpose: fields alone, so that online and offline see the same
input:
  card_id:  {type: string, key: true}
  amount:   {type: float, min: 0, max: 100000}
  currency: {type: category, values: [EUR, USD]}
  country:  {type: category, values: [DE, FR], unknown: other}
  mcc:      {type: int, missing: -1}
features:
  large: {compute: "amount > 1000.0", type: bool}
transforms:
  - log1p: amount
  - standardize: {of: amount, mean: 3.0, scale: 1.5}
  - one_hot: [currency, country]
  - cast: {of: [mcc, large], to: float}
model: {path: plain.onnx, columns: from transforms, score: "probabilities[1]"}
policy:
  guard: {score: 0..1}
  rules:
    - {when: "large && country != 'DE'", then: review, reason: R07}
  bands: {pass: "< 0.40", review: "< 0.97", reject: ">= 0.97"}
remedies: {guard_violated: review}
"""
PLAIN_COLUMNS = 8


def plain(path: Path, spec: str = PLAIN) -> Path:
    """A decision without stores and windows; gives the spec's file."""
    fraud_model(path, "plain", PLAIN_COLUMNS)
    file = path / "plain.yaml"
    file.write_text(spec)
    return file


def plain_rows(count: int, seed: int = 5) -> list[dict[str, object]]:
    """Rows for it: ordinary, extreme, with unseen categories, and some that it must refuse."""
    dice = random.Random(seed)
    rows: list[dict[str, object]] = []
    for place in range(count):
        row: dict[str, object] = {
            "card_id": f"c-{place}-ü",
            "amount": dice.choice([0.0, 1e-300, 99999.9, round(dice.expovariate(0.01), 2), dice.random() * 2000]),
            "currency": dice.choice(["EUR", "USD"]),
            "country": dice.choice(["DE", "FR", "NO", "", "日本"]),
        }
        if dice.random() < 0.5:
            row["mcc"] = dice.choice([0, -1, 5411, 2**31])
        match dice.randrange(40):
            case 0:
                row["amount"] = -1.0
            case 1:
                del row["currency"]
            case 2:
                row["currency"] = "EURO"
        rows.append(row)
    return rows
