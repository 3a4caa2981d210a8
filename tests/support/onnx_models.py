"""Small ONNX models for the tests, each made from a seed: good ones of every kind, and ones that must be refused.

A maker takes a folder and gives the path of the file it wrote. It knows nothing of the server.
"""

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Arrays = dict[str, NDArray[Any]]

OPSET = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
SEED = 20261115
TREES = 50


def rng(seed: int = SEED) -> np.random.Generator:
    return np.random.default_rng(seed)


def value(name: str, kind: int, shape: list[int | str]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    constants: Mapping[str, NDArray[Any]] | None = None,
    *,
    opset: list[onnx.OperatorSetIdProto] = OPSET,
) -> Path:
    initializers = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, path.stem, inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=opset, ir_version=8, producer_name="flyball-tests")
    path.write_bytes(model.SerializeToString())
    return path


def linear(folder: Path, name: str = "linear", seed: int = SEED) -> Path:
    """Four floats in, two out."""
    constants = {
        "w": rng(seed).normal(size=(4, 2)).astype(np.float32),
        "b": rng(seed + 1).normal(size=2).astype(np.float32),
    }
    nodes = [helper.make_node("MatMul", ["x", "w"], ["xw"]), helper.make_node("Add", ["xw", "b"], ["y"])]
    inputs, outputs = [value("x", TensorProto.FLOAT, ["n", 4])], [value("y", TensorProto.FLOAT, ["n", 2])]
    return save(folder / f"{name}.onnx", nodes, inputs, outputs, constants)


def gbdt(folder: Path) -> Path:
    """A real gradient-boosted tree ensemble, trained by LightGBM and converted as its users do."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the converters' own deprecations are not ours to mend
        import lightgbm
        from onnxmltools import convert_lightgbm
        from onnxmltools.convert.common.data_types import FloatTensorType

        x = rng().normal(size=(2000, 8)).astype(np.float32)
        y = (x[:, 0] * x[:, 1] + x[:, 2] > 0.2).astype(np.int32)
        params = {"objective": "binary", "num_leaves": 15, "seed": SEED, "verbose": -1, "num_threads": 1}
        booster = lightgbm.train(params, lightgbm.Dataset(x, y), num_boost_round=TREES)
        types = [("x", FloatTensorType([None, 8]))]
        model = convert_lightgbm(booster, initial_types=types, zipmap=False, target_opset=15)
    path = folder / "gbdt.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def int64(folder: Path) -> Path:
    """Whole numbers beyond what a double can hold: 2^53 + 1 must survive."""
    constants = {"k": np.array([1, 3, -7], np.int64), "c": np.array([0, 2**53 + 1, -1], np.int64)}
    nodes = [helper.make_node("Mul", ["x", "k"], ["xk"]), helper.make_node("Add", ["xk", "c"], ["y"])]
    inputs, outputs = [value("x", TensorProto.INT64, ["n", 3])], [value("y", TensorProto.INT64, ["n", 3])]
    return save(folder / "int64.onnx", nodes, inputs, outputs, constants)


def strings(folder: Path) -> Path:
    """Colours in English in, in French out, and each one's number beside it."""
    keys, domain = ["red", "green", "blue", "grün"], "ai.onnx.ml"
    nodes = [
        helper.make_node(
            "LabelEncoder", ["x"], ["word"], domain=domain, keys_strings=keys,
            values_strings=["rouge", "vert", "bleu", "vert ↔ grün"], default_string="inconnu",
        ),
        helper.make_node(
            "LabelEncoder", ["x"], ["number"], domain=domain, keys_strings=keys, values_int64s=[1, 2, 3, 2],
            default_int64=-1,
        ),
    ]  # fmt: skip
    inputs = [value("x", TensorProto.STRING, ["n", 1])]
    outputs = [value("word", TensorProto.STRING, ["n", 1]), value("number", TensorProto.INT64, ["n", 1])]
    return save(folder / "strings.onnx", nodes, inputs, outputs)


def fp16(folder: Path) -> Path:
    constants = {"w": rng().normal(size=(4, 3)).astype(np.float16)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    inputs, outputs = [value("x", TensorProto.FLOAT16, ["n", 4])], [value("y", TensorProto.FLOAT16, ["n", 3])]
    return save(folder / "fp16.onnx", nodes, inputs, outputs, constants)


def many(folder: Path) -> Path:
    """Three inputs of three types, three outputs: what a real feature row looks like."""
    nodes = [
        helper.make_node("Cast", ["count"], ["count_f"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["amounts", "axis"], ["total"], keepdims=1),
        helper.make_node("Div", ["total", "count_f"], ["mean"]),
        helper.make_node("Greater", ["mean", "edge"], ["above"]),
        helper.make_node("And", ["above", "known"], ["alarm"]),
        helper.make_node("Add", ["count", "one"], ["next"]),
    ]
    constants: Arrays = {"axis": np.array([1], np.int64), "edge": np.array(0.5, np.float32), "one": np.array(1, np.int64)}
    inputs = [
        value("amounts", TensorProto.FLOAT, ["n", 3]),
        value("count", TensorProto.INT64, ["n", 1]),
        value("known", TensorProto.BOOL, ["n", 1]),
    ]
    outputs = [
        value("mean", TensorProto.FLOAT, ["n", 1]),
        value("alarm", TensorProto.BOOL, ["n", 1]),
        value("next", TensorProto.INT64, ["n", 1]),
    ]
    return save(folder / "many.onnx", nodes, inputs, outputs, constants)


def boolean(folder: Path) -> Path:
    nodes = [helper.make_node("Not", ["x"], ["y"])]
    inputs, outputs = [value("x", TensorProto.BOOL, ["n", 3])], [value("y", TensorProto.BOOL, ["n", 3])]
    return save(folder / "boolean.onnx", nodes, inputs, outputs)


def int8(folder: Path) -> Path:
    """A dynamically quantised network: it scales over the whole batch, so rows influence each other."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    constants, nodes, last = {}, [], "x"
    for layer, (rows, columns) in enumerate([(8, 64), (64, 64), (64, 2)]):
        constants[f"w{layer}"] = rng(SEED + layer).normal(size=(rows, columns)).astype(np.float32)
        nodes.append(helper.make_node("MatMul", [last, f"w{layer}"], [f"m{layer}"]))
        last = "y" if layer == 2 else f"r{layer}"
        nodes.append(helper.make_node("Identity" if layer == 2 else "Relu", [f"m{layer}"], [last]))
    inputs, outputs = [value("x", TensorProto.FLOAT, ["n", 8])], [value("y", TensorProto.FLOAT, ["n", 2])]
    whole = save(folder / "int8-before.onnx", nodes, inputs, outputs, constants)
    path = folder / "int8.onnx"
    quantize_dynamic(str(whole), str(path), weight_type=QuantType.QInt8)
    return path


def fixed_batch(folder: Path) -> Path:
    """Takes one row, never two."""
    nodes = [helper.make_node("Neg", ["x"], ["y"])]
    inputs, outputs = [value("x", TensorProto.FLOAT, [1, 4])], [value("y", TensorProto.FLOAT, [1, 4])]
    return save(folder / "fixed_batch.onnx", nodes, inputs, outputs)


def free_axis(folder: Path) -> Path:
    """Rows of any width: requests of different widths cannot share a run."""
    nodes = [helper.make_node("ReduceSum", ["x", "axis"], ["y"], keepdims=1)]
    inputs, outputs = [value("x", TensorProto.FLOAT, ["n", "m"])], [value("y", TensorProto.FLOAT, ["n", 1])]
    return save(folder / "free_axis.onnx", nodes, inputs, outputs, {"axis": np.array([1], np.int64)})


def gather(folder: Path) -> Path:
    """Looks numbers up in a table of eight; any other index fails at run time."""
    constants = {"table": np.arange(8, dtype=np.float32) * 1.5}
    nodes = [helper.make_node("Gather", ["table", "x"], ["y"])]
    inputs, outputs = [value("x", TensorProto.INT64, ["n", 1])], [value("y", TensorProto.FLOAT, ["n", 1])]
    return save(folder / "gather.onnx", nodes, inputs, outputs, constants)


def slow(folder: Path, name: str = "slow", steps: int = 4) -> Path:
    """Some milliseconds of work in each step for one row; a fixed batch of one, so that loading it stays quick."""
    constants: Arrays = {"shape": np.array([700, 700], np.int64), "scale": np.array(1e-3, np.float32)}
    nodes, last = [helper.make_node("Expand", ["x", "shape"], ["e"])], "e"
    for step in range(steps):
        nodes.append(helper.make_node("MatMul", [last, "e"], [f"m{step}"]))
        nodes.append(helper.make_node("Mul", [f"m{step}", "scale"], [f"s{step}"]))
        last = f"s{step}"
    nodes.append(helper.make_node("ReduceMax", [last], ["y"], keepdims=1))
    inputs, outputs = [value("x", TensorProto.FLOAT, [1, 1])], [value("y", TensorProto.FLOAT, [1, 1])]
    return save(folder / f"{name}.onnx", nodes, inputs, outputs, constants)


def looped(folder: Path) -> Path:
    """Counts to its input, one by one, about a microsecond each: as slow as a test wants it, and endless in practice."""
    inputs, outputs = [value("x", TensorProto.INT64, [1])], [value("y", TensorProto.FLOAT, [1])]
    return save(folder / "looped.onnx", [_counts("x", "y")], inputs, outputs, {"zero": np.zeros(1, np.float32)})


def endless(folder: Path, trips: int = 2**62) -> Path:
    """Takes and gives what `linear` does, and counts before it answers, for ever or to `trips`, about a microsecond each."""
    nodes = [
        _counts("trips", "counted"),
        helper.make_node("MatMul", ["x", "w"], ["xw"]),
        helper.make_node("Add", ["xw", "counted"], ["y"]),
    ]
    constants: Arrays = {
        "trips": np.array(trips, np.int64), "zero": np.zeros(1, np.float32), "w": np.ones((4, 2), np.float32),
    }  # fmt: skip
    inputs, outputs = [value("x", TensorProto.FLOAT, ["n", 4])], [value("y", TensorProto.FLOAT, ["n", 2])]
    return save(folder / "endless.onnx", nodes, inputs, outputs, constants)


def holding(folder: Path) -> Path:
    """Multiplies two matrices of ones, as large as its input says, in one operator that nothing can interrupt; adds one.

    The one comes out of a loop, so that the model never runs on a lane with sockets.
    """
    one = helper.make_tensor("value", TensorProto.INT64, [1], [1])
    nodes = [
        _counts("trips", "counted"),
        helper.make_node("Cast", ["counted"], ["once"], to=TensorProto.INT64),
        helper.make_node("Concat", ["x", "x"], ["shape"], axis=0),
        helper.make_node("ConstantOfShape", ["shape"], ["ones"], value=one),
        helper.make_node("MatMul", ["ones", "ones"], ["product"]),
        helper.make_node("ReduceMax", ["product"], ["most"], keepdims=0),
        helper.make_node("Add", ["once", "most"], ["y"]),
    ]
    constants: Arrays = {"trips": np.array(1, np.int64), "zero": np.zeros(1, np.float32)}
    inputs, outputs = [value("x", TensorProto.INT64, [1])], [value("y", TensorProto.INT64, [1])]
    return save(folder / "holding.onnx", nodes, inputs, outputs, constants)


def _counts(trips: str, to: str) -> onnx.NodeProto:
    """A loop that adds one to `zero` for so many trips."""
    still, added = helper.make_node("Identity", ["go_on"], ["still"]), helper.make_node("Add", ["so_far", "one"], ["now"])
    given = [
        value("trip", TensorProto.INT64, []),
        value("go_on", TensorProto.BOOL, []),
        value("so_far", TensorProto.FLOAT, [1]),
    ]
    results = [value("still", TensorProto.BOOL, []), value("now", TensorProto.FLOAT, [1])]
    one = numpy_helper.from_array(np.ones(1, np.float32), "one")
    body = helper.make_graph([still, added], "body", given, results, [one])
    return helper.make_node("Loop", [trips, "", "zero"], [to], body=body)


def heavy(folder: Path, mebibytes: int) -> Path:
    """Looks numbers up in a table of this size: little work, much memory."""
    constants = {"table": np.zeros(mebibytes << 18, np.float32)}
    nodes = [helper.make_node("Gather", ["table", "x"], ["y"])]
    inputs, outputs = [value("x", TensorProto.INT64, ["n", 1])], [value("y", TensorProto.FLOAT, ["n", 1])]
    return save(folder / "heavy.onnx", nodes, inputs, outputs, constants)


def infinite(folder: Path) -> Path:
    """One divided by the input: zero gives an infinity, which JSON cannot say."""
    nodes = [helper.make_node("Reciprocal", ["x"], ["y"])]
    inputs, outputs = [value("x", TensorProto.FLOAT, ["n", 1])], [value("y", TensorProto.FLOAT, ["n", 1])]
    return save(folder / "infinite.onnx", nodes, inputs, outputs)


def external(folder: Path) -> Path:
    """Weights in a file beside the model."""
    return _external(folder, "external", "external-weights.bin", folder / "external-weights.bin")


def external_outside(folder: Path) -> Path:
    """Weights in a file outside the model's folder: must be refused."""
    inner = folder / "inner"
    inner.mkdir(exist_ok=True)
    return _external(inner, "external_outside", "../outside.bin", folder / "outside.bin")


def _external(folder: Path, name: str, location: str, weights: Path) -> Path:
    path = linear(folder, name)
    model = onnx.load_model_from_string(path.read_bytes())
    tensor = model.graph.initializer[0]
    weights.write_bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", location
    path.write_bytes(model.SerializeToString())
    return path


def zipmap(folder: Path) -> Path:
    """What scikit-learn's converter gives by default: probabilities as a list of dictionaries."""
    domain = "ai.onnx.ml"
    nodes = [
        helper.make_node(
            "LinearClassifier", ["x"], ["label", "scores"], domain=domain, coefficients=[1.0, 2.0, -1.0, -2.0],
            intercepts=[0.1, -0.1], classlabels_ints=[0, 1], post_transform="LOGISTIC",
        ),
        helper.make_node("ZipMap", ["scores"], ["probabilities"], domain=domain, classlabels_int64s=[0, 1]),
    ]  # fmt: skip
    pair = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    outputs = [
        value("label", TensorProto.INT64, ["n"]),
        helper.make_value_info("probabilities", helper.make_sequence_type_proto(pair)),
    ]
    return save(folder / "zipmap.onnx", nodes, [value("x", TensorProto.FLOAT, ["n", 2])], outputs)


def unknown_op(folder: Path) -> Path:
    nodes = [helper.make_node("NoSuchOp", ["x"], ["y"])]
    inputs, outputs = [value("x", TensorProto.FLOAT, ["n", 4])], [value("y", TensorProto.FLOAT, ["n", 4])]
    return save(folder / "unknown_op.onnx", nodes, inputs, outputs)


def opset_99(folder: Path) -> Path:
    nodes = [helper.make_node("Neg", ["x"], ["y"])]
    inputs, outputs = [value("x", TensorProto.FLOAT, ["n", 4])], [value("y", TensorProto.FLOAT, ["n", 4])]
    return save(folder / "opset_99.onnx", nodes, inputs, outputs, opset=[helper.make_opsetid("", 99)])


def truncated(folder: Path) -> Path:
    whole = linear(folder, "truncated").read_bytes()
    path = folder / "truncated.onnx"
    path.write_bytes(whole[: len(whole) // 2])
    return path


GOOD: dict[str, Callable[[Path], Path]] = {
    "linear": linear,
    "gbdt": gbdt,
    "int64": int64,
    "strings": strings,
    "fp16": fp16,
    "many": many,
    "boolean": boolean,
    "int8": int8,
    "fixed_batch": fixed_batch,
    "free_axis": free_axis,
    "gather": gather,
    "slow": slow,
    "looped": looped,
    "infinite": infinite,
    "external": external,
}
BAD: dict[str, Callable[[Path], Path]] = {
    "zipmap": zipmap,
    "unknown_op": unknown_op,
    "opset_99": opset_99,
    "truncated": truncated,
    "external_outside": external_outside,
}


def row(name: str, seed: int) -> Arrays:
    """One request's inputs for a good model; another seed gives another row."""
    r = rng(seed)
    make: dict[str, Callable[[], Arrays]] = {
        "linear": lambda: {"x": r.normal(size=(1, 4)).astype(np.float32)},
        "gbdt": lambda: {"x": r.normal(size=(1, 8)).astype(np.float32)},
        "int64": lambda: {"x": r.integers(-(2**60), 2**60, size=(1, 3), dtype=np.int64)},
        "strings": lambda: {"x": np.array([[r.choice(["red", "green", "blue", "grün", "", "🦊"])]], dtype=object)},
        "fp16": lambda: {"x": r.normal(size=(1, 4)).astype(np.float16)},
        "many": lambda: {
            "amounts": r.normal(size=(1, 3)).astype(np.float32),
            "count": r.integers(1, 9, size=(1, 1), dtype=np.int64),
            "known": r.integers(0, 2, size=(1, 1)).astype(np.bool_),
        },
        "boolean": lambda: {"x": r.integers(0, 2, size=(1, 3)).astype(np.bool_)},
        "int8": lambda: {"x": (r.normal(size=(1, 8)) * 10.0 ** r.integers(-1, 3)).astype(np.float32)},
        "fixed_batch": lambda: {"x": r.normal(size=(1, 4)).astype(np.float32)},
        "free_axis": lambda: {"x": r.normal(size=(1, int(r.integers(1, 6)))).astype(np.float32)},
        "gather": lambda: {"x": r.integers(0, 8, size=(1, 1), dtype=np.int64)},
        "slow": lambda: {"x": r.normal(size=(1, 1)).astype(np.float32)},
        "looped": lambda: {"x": r.integers(0, 100, size=1, dtype=np.int64)},
        "infinite": lambda: {"x": r.uniform(1, 2, size=(1, 1)).astype(np.float32)},
        "external": lambda: {"x": r.normal(size=(1, 4)).astype(np.float32)},
    }
    return make[name]()
