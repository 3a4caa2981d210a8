"""Topic: whether folding one-hot columns of trees into one pays off; it does not, so `flyball optimize` skips it.

Each split at a one-hot column becomes a comparison with one value of one column; the answers are the same bits.
"""

from __future__ import annotations

import warnings
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.claims.bars import at_least, times
from bench.claims.claim import Claim, Figure, Raw, Topic
from flyball.bench.table import latency
from flyball.errors import FlyballError
from flyball.native.model_runs import Model

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.claims.tails.stand import Stand

VALUES, NUMBERS, ROWS, TREES, ROUNDS = (16, 128, 512), 8, 20_000, 200, 9
AT_ONCE, LEAST = (1, 32), 0.95


def measure(stand: Stand) -> None:
    """LightGBM's trees with one category of few, many and very many values, both ways in turn."""
    for values in VALUES:
        stand.tell(f"{values} values")
        wide, folded, rows = _made(stand.folder, values, 4_000 if stand.quick else ROWS)
        expected = wide.run({"input": rows[0][:1000]})["probabilities"]
        if not np.array_equal(expected, folded.run({"input": rows[1][:1000]})["probabilities"]):
            raise FlyballError("the folded trees answer otherwise")
        took = {at_once: _times(wide, folded, rows, at_once) for at_once in AT_ONCE}
        stand.keep(f"{values}", {str(at_once): pair for at_once, pair in took.items()})


def _times(wide: Model, folded: Model, rows: tuple[Any, Any], at_once: int) -> tuple[float, float]:
    random = np.random.default_rng(at_once)
    runs: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        places = random.integers(0, len(rows[0]), at_once)
        for kept, model, table in zip(runs, (wide, folded), rows, strict=True):
            kept.append(model.measure({"input": np.ascontiguousarray(table[places])}, runs=1500, warm_runs=50).p50_us)
    return median(runs[0]), median(runs[1])


def _made(folder: Path, values: int, count: int) -> tuple[Model, Model, tuple[Any, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the converters' own deprecations
        import lightgbm
        from onnxmltools import convert_lightgbm
        from onnxmltools.convert.common.data_types import FloatTensorType

        random = np.random.default_rng(values)
        numbers, value = random.normal(size=(count, NUMBERS)).astype(np.float32), random.integers(0, values, count)
        worth = random.normal(size=values)[value] + numbers[:, 0] + numbers[:, 1] * numbers[:, 2]
        rows = np.hstack([numbers, np.eye(values, dtype=np.float32)[value]])
        settings = {"objective": "binary", "min_data_in_leaf": 5, "verbose": -1, "num_threads": 1, "seed": 1}
        data = lightgbm.Dataset(rows, (worth + random.normal(size=count) > 0).astype(int))
        types = [("input", FloatTensorType([None, NUMBERS + values]))]
        model = convert_lightgbm(lightgbm.train(settings, data, TREES), initial_types=types, zipmap=False, target_opset=15)
    (folder / "wide.onnx").write_bytes(model.SerializeToString())
    _fold(model)
    (folder / "folded.onnx").write_bytes(model.SerializeToString())
    narrow = np.hstack([numbers, value[:, None].astype(np.float32)])
    return Model(folder / "wide.onnx"), Model(folder / "folded.onnx"), (rows, narrow)


def _fold(model: Any) -> None:
    """Left of a split at a one-hot column is who has another value."""
    (trees,) = (node for node in model.graph.node if node.op_type == "TreeEnsembleClassifier")
    parts = {one.name: one for one in trees.attribute}
    columns, modes, values = (parts[f"nodes_{name}"] for name in ("featureids", "modes", "values"))
    for place, column in enumerate(list(columns.ints)):
        if modes.strings[place] == b"LEAF" or column < NUMBERS:
            continue
        columns.ints[place], modes.strings[place], values.floats[place] = NUMBERS, b"BRANCH_NEQ", float(column - NUMBERS)
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = NUMBERS + 1


def _quickest(values: int) -> Callable[[Raw], Figure]:
    def figure(raw: Raw) -> Figure:
        took = raw[str(values)]
        told = [f"{rows} a run: {latency(wide)} wide, {latency(folded)} folded" for rows, (wide, folded) in took.items()]
        return Figure(min(folded / wide for wide, folded in took.values()), "; ".join(told))

    return figure


TOPIC = Topic(
    "folded",
    measure,
    subject=f"LightGBM, {TREES} trees over one-hot columns and {NUMBERS} numbers, as they are and folded, which is not done",
    sample=f"{ROUNDS} rounds of {' and '.join(map(str, AT_ONCE))} rows a run",
    claims=tuple(
        Claim(
            str(values),
            f"{values} values: time folded over as it is, the quickest",
            at_least(LEAST, times),
            _quickest(values),
        )
        for values in VALUES
    ),
)
