"""The models of the skeleton's claims, made once a run. Must not know what is claimed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.claims.subjects import Subject
from flyball.bench.models.fraud import fraud_rows, make_fraud_gbdt
from flyball.bench.models.perceptron import make_int8_mlp, make_mlp
from flyball.bench.payloads import make_payloads

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand

WINDOW_S, REPEATS = 3.0, 5
CONNECTIONS = 16


def gbdt(stand: Stand) -> Subject:
    """300 trees."""
    path = make_fraud_gbdt(stand.folder / "fraud.onnx")
    rows = make_payloads(path, 2000, seed=11, rows=lambda count: fraud_rows(count, seed=11)[0])
    return Subject("fraud", path, rows, stand.seconds(WINDOW_S))


def mlp(stand: Stand) -> Subject:
    """A small perceptron."""
    path = make_mlp(stand.folder / "mlp.onnx")
    return Subject("mlp", path, make_payloads(path, 500, seed=11), stand.seconds(WINDOW_S))


def int8(stand: Stand) -> Subject:
    """A dynamically quantised perceptron, whose rows influence each other."""
    path = make_int8_mlp(stand.folder / "int8.onnx")
    return Subject("int8", path, make_payloads(path, 2000, seed=11), stand.seconds(WINDOW_S))
