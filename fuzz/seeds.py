"""Writes the fuzzing seeds: one small request for each form that the decoders know.

Run `python fuzz/seeds.py` after a form is added; what it writes is checked in. Knows the messages of the wire and of ONNX,
and nothing else.
"""

import base64
import gzip
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import onnx
from onnx import helper

from flyball.client import _decisions_pb2 as decisions
from flyball.client import _oip_pb2 as pb

SEEDS = Path(__file__).resolve().parent / "seeds"
GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden"
JOURNAL = GOLDEN / "journal"
SHARED = {"shared_memory_region": "r", "shared_memory_offset": 4, "shared_memory_byte_size": 8}
TYPES = {
    "BOOL": ([True, False], "2?"), "UINT8": ([1, 255], "2B"), "UINT16": ([1, 2], "2H"), "UINT32": ([1, 2], "2I"),
    "UINT64": ([1, 2**64 - 1], "2Q"), "INT8": ([-1, 2], "2b"), "INT16": ([-1, 2], "2h"), "INT32": ([-1, 2], "2i"),
    "INT64": ([-(2**63), 2], "2q"), "FP32": ([0.5, -1e30], "2f"), "FP64": ([0.1, 1e300], "2d"),
}  # fmt: skip


def raw(datatype: str) -> bytes:
    """Two elements as they travel."""
    if datatype == "BYTES":
        return struct.pack("<I2sI", 2, "é".encode(), 0)
    if datatype in ("FP16", "BF16"):
        return b"\x00\x3c\x00\x00"
    values, form = TYPES[datatype]
    return struct.pack("<" + form, *values)


def json_bodies() -> dict[str, object]:
    """Requests in JSON, by a name for their file."""
    inputs = [{"name": name, "datatype": name, "shape": [1, 2], "data": [values]} for name, (values, _) in TYPES.items()]
    texts = {"name": "t", "datatype": "BYTES", "shape": [2], "data": ["a\n\u00e9", ""]}
    asked = [{"name": "y", "parameters": {"classification": 3}}, {"name": "z", "parameters": {"binary_data": True}}]
    known = {"timeout": 5000, "priority": 1, "sequence_id": 0, "binary_data_output": True, "other": [1, {"a": None}]}
    shared = [{"name": "s", "datatype": "FP32", "shape": [2], "parameters": SHARED}]
    return {
        "types": {"inputs": [*inputs, texts]},
        "outputs": {"id": "1", "inputs": [texts], "outputs": asked, "parameters": known},
        "shared": {"inputs": shared, "outputs": [{"name": "y", "parameters": SHARED}]},
        "flat": {"inputs": [{"name": "x", "datatype": "INT64", "shape": [2, 2], "data": [1, 2, 3, 4]}]},
    }


def messages() -> dict[str, bytes]:
    """Requests as protobuf messages."""
    raw_form = pb.ModelInferRequest(model_name="m", model_version="1", id="7")
    raw_form.parameters["timeout"].int64_param = 5000
    raw_form.outputs.add(name="y").parameters["classification"].int64_param = 2
    for datatype in [*TYPES, "BYTES", "FP16", "BF16"]:
        raw_form.inputs.add(name=datatype, datatype=datatype, shape=[1, 2])
        raw_form.raw_input_contents.append(raw(datatype))
    typed = pb.ModelInferRequest(model_name="m")
    typed.inputs.add(name="a", datatype="INT64", shape=[2]).contents.int64_contents.extend([1, -2])
    typed.inputs.add(name="b", datatype="BYTES", shape=[1]).contents.bytes_contents.append(b"text")
    shared = pb.ModelInferRequest(model_name="m")
    for tensor in (shared.inputs.add(name="s", datatype="FP32", shape=[2]), shared.outputs.add(name="y")):
        tensor.parameters["shared_memory_region"].string_param = "r"
        tensor.parameters["shared_memory_offset"].int64_param = 4
        tensor.parameters["shared_memory_byte_size"].int64_param = 8
    forms = {"raw": raw_form, "typed": typed, "shared": shared}
    return {name: form.SerializeToString(deterministic=True) for name, form in forms.items()}


def decision_bodies() -> dict[str, dict[str, Any]]:
    """Requests for decisions, in JSON; their twins in protobuf are made from them."""
    fields = {"amount": 12.5, "count": -3, "country": "n\u00e9", "new": True, "none": None}
    rows = [{"id": "a", "input": fields}, {"id": "b\n", "input": {"amount": 1e300}}, {"input": {}}]
    return {"one": {"input": fields, "explain": True}, "many": {"rows": rows, "timings": True}}


def decision_message(body: dict[str, Any]) -> bytes:
    """The same request as a protobuf message."""

    def values(fields: dict[str, object]) -> dict[str, decisions.Value]:
        kinds = {bool: "bool_value", int: "int_value", float: "double_value", str: "text_value"}
        null = decisions.Value(null_value=decisions.NULL)
        return {
            name: null if value is None else decisions.Value(**{kinds[type(value)]: value}) for name, value in fields.items()
        }

    rows = [decisions.Row(id=row.get("id"), input=values(row["input"])) for row in body.get("rows", ())]
    message = decisions.DecideRequest(
        decision="d",
        input=values(body.get("input", {})),
        rows=rows,
        explain=body.get("explain", False),
        timings=body.get("timings", False),
    )
    return message.SerializeToString(deterministic=True)


def signed_documents() -> dict[str, bytes]:
    """A bundle, a release, a trust policy and an index's signature, each as it is sent and as it is signed."""
    corpus = json.loads((GOLDEN / "signing" / "cases.json").read_text())
    cases = {case["name"]: case for case in corpus["cases"]}
    found = {name: corpus["texts"][cases["plain"][name]] for name in ("bundle", "release", "trust")}
    found["index"] = corpus["texts"][cases["index as published"]["index_signature"]]
    payloads = {}
    for name, text in found.items():
        document = json.loads(text)
        payloads[f"{name}_payload"] = base64.b64decode(document.get("dsseEnvelope", document)["payload"])
    root = corpus["roots"][cases["plain"]["roots"]][0]
    return {name: text.encode() for name, text in found.items()} | payloads | {"root": root.encode()}


def models() -> dict[str, bytes]:
    """Small models that have every part at which the scan looks."""
    floats = helper.make_tensor("w", onnx.TensorProto.FLOAT, [2], [0.5, 1.0])
    beside = onnx.TensorProto(name="b", dims=[2], data_type=onnx.TensorProto.FLOAT, data_location=onnx.TensorProto.EXTERNAL)
    for key, value in {"location": "w.bin", "offset": "4", "length": "8"}.items():
        beside.external_data.add(key=key, value=value)
    places = helper.make_tensor("i", onnx.TensorProto.INT64, [2], [0, 3])
    sparse = helper.make_sparse_tensor(floats, places, [4])
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 2])
    texts = helper.make_value_info("t", helper.make_sequence_type_proto(helper.make_tensor_type_proto(8, ["n"])))
    branch = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "branch", [], [x], [floats])
    nodes = [
        helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
        helper.make_node("twice", ["x"], ["z"], domain="mine"),
        helper.make_node("Constant", [], ["k"], sparse_value=sparse),
        helper.make_node("Scaler", ["x"], ["s"], domain="ai.onnx.ml", offset=[0.0, 1.0], scale=[1.0, 2.0]),
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("mine", 1)]
    body = [helper.make_node("Add", ["x", "x"], ["y"]), helper.make_node("once", ["y"], ["z"], domain="mine")]
    functions = [
        helper.make_function("mine", "twice", ["x"], ["z"], body, opsets),
        helper.make_function("mine", "once", ["x"], ["y"], [helper.make_node("Neg", ["x"], ["y"])], opsets),
    ]
    graph = helper.make_graph(nodes, "g", [x, texts], [x], [floats, beside], sparse_initializer=[sparse])
    whole = helper.make_model(graph, opset_imports=opsets, functions=functions, producer_name="seeds")
    whole.metadata_props.add(key="author", value="somebody")
    small = helper.make_model(helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [x], [x]))
    zipped = b"PK\x03\x04" + bytes(26) + b"archive/data.pkl"
    tensors = b'{"w":{"dtype":"F32"}}'
    return {
        "whole": whole.SerializeToString(deterministic=True),
        "small": small.SerializeToString(deterministic=True),
        "torch": zipped,
        "pickle": b"\x80\x04\x95\x01\x00\x00\x00\x00\x00\x00\x00N.",
        "safetensors": struct.pack("<Q", len(tensors)) + tensors,
    }


def write(target: str, name: str, seed: bytes) -> None:
    """Put one seed where its target looks for it."""
    folder = SEEDS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.bin").write_bytes(seed)


def main() -> None:
    """Write them all."""
    for name, body in json_bodies().items():
        write("http_json", name, json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode())
    parts = [raw(datatype) for datatype in [*TYPES, "BYTES", "FP16", "BF16"]]
    inputs = [
        {"name": name, "datatype": name, "shape": [2], "parameters": {"binary_data_size": len(part)}}
        for name, part in zip([*TYPES, "BYTES", "FP16", "BF16"], parts, strict=True)
    ]
    head = json.dumps({"inputs": inputs}, separators=(",", ":")).encode()
    write("http_binary", "types", struct.pack("<H", len(head)) + head + b"".join(parts))
    write("http_binary", "whole", struct.pack("<H", 0) + b"".join(parts))
    for name, message in messages().items():
        write("grpc_message", name, message)
        write("grpc_frame", name, struct.pack(">BI", 0, len(message)) + message)
    for name, body in decision_bodies().items():
        write("decision_json", name, json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode())
        write("decision_grpc", name, decision_message(body))
    write("grpc_frame", "compressed", struct.pack(">BI", 1, 3) + b"abc")
    write("grpc_stream", "two", b"\x07" + (struct.pack(">BI", 0, 3) + b"abc") * 2 + struct.pack(">BI", 1, 0))
    text = b'{"inputs":[]}' * 9
    write("inflate", "gzip", b"\x00" + gzip.compress(text, mtime=0) * 2)
    write("inflate", "deflate", b"\x21" + zlib.compress(text))
    bodies = {
        "index": {"ready": True}, "load": {"parameters": {"config": "{}", "unload_dependents": True}},
        "register": {"key": "/k", "offset": 8, "byte_size": 64},
    }  # fmt: skip
    for name, body in bodies.items():
        write("control", name, json.dumps(body).encode())
    symbol = b"inference.GRPCInferenceService"
    write("control", "reflection", bytes([0x22, len(symbol)]) + symbol)  # file_containing_symbol
    for name, document in signed_documents().items():
        write("signing", name, document)
    for name, model in models().items():
        write("onnx_scan", name, model)
    segments = sorted((JOURNAL / "segments").iterdir())
    for segment in segments:
        write("journal_segment", segment.stem.lstrip("0"), segment.read_bytes())
    first = segments[0].read_bytes()
    (length,) = struct.unpack_from("<I", first, 256)
    write("journal_segment", "frame", first[256 : 256 + 48 + length])
    write("journal_segment", "record", first[256 + 48 : 256 + 48 + length])
    write("journal_segment", "torn", first[:-5] + bytes(64))
    write("journal_segment", "hole", first[: 256 + 48 + length] + bytes(200) + first[256 + 48 + length :])
    write("journal_segment", "notes", (JOURNAL / "checkpoints").read_bytes())


if __name__ == "__main__":
    main()
