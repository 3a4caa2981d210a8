"""Trains the click model on the spec's own columns, and writes the model that multiplies its answer by the bid."""

from __future__ import annotations

import warnings
from pathlib import Path

from onnx import TensorProto, helper

import flyball
from flyball.models.convert.from_lightgbm import to_onnx

HERE = Path(__file__).resolve().parent
MADE = HERE / "made"
TREES = 150
SETTINGS = {
    "objective": "binary",
    "num_leaves": 15,
    "learning_rate": 0.05,
    "min_data_in_leaf": 100,
    "seed": 7,
    "verbose": -1,
    "num_threads": 1,
    "deterministic": True,
}


def train() -> None:
    """From made/impressions.csv to both models."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LightGBM's own deprecations
        import lightgbm

    names, rows, clicked = flyball.training_rows(HERE / "ad-ranking.yaml", MADE / "impressions.csv", target="clicked")
    booster = lightgbm.train(SETTINGS, lightgbm.Dataset(rows, clicked, feature_name=names), TREES)
    model, _, _ = to_onnx(booster, "click")
    (MADE / "click.onnx").write_bytes(model)
    (MADE / "value.onnx").write_bytes(product())


def product() -> bytes:
    """An ONNX model of one node: the product of a row's columns."""
    rows = helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["n", 2])
    value = helper.make_tensor_value_info("value", TensorProto.FLOAT, ["n", 1])
    node = helper.make_node("ReduceProd", ["rows"], ["value"], axes=[1], keepdims=1)
    graph = helper.make_graph([node], "value", [rows], [value])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


if __name__ == "__main__":
    train()
