"""What the peers answer: trees as ONNX Runtime scores them, and the bare ASGI application's requests and batches."""

import asyncio
import json
import sys
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import pytest

from flyball.bench.models.fraud import fraud_rows, make_fraud_gbdt
from flyball.bench.models.perceptron import make_mlp
from tests.support.peer_modules import common

ROWS = 300


@pytest.fixture(scope="module")
def gbdt(tmp_path_factory):
    """A LightGBM classifier in ONNX, with the rows that it is asked."""
    path = make_fraud_gbdt(tmp_path_factory.mktemp("trees") / "fraud.onnx", trees=20)
    return path, np.ascontiguousarray(fraud_rows(ROWS, seed=3)[0], dtype=np.float32)


@pytest.fixture(scope="module")
def trees():
    """The module that reads and answers trees."""
    return common("tree_model")


def scorer_of(ensemble):
    """A compiler's stand-in: walks the trees, and adds their leaves in order and in 32 bits."""
    by_number = [{node.number: node for node in tree} for tree in ensemble.trees]

    def leaf(nodes, row):
        node = nodes[0]
        while node.leaf is None:
            node = nodes[node.left if row[node.feature] <= node.threshold else node.right]
        return np.float32(node.leaf)

    def score(rows, sums):
        for at in range(len(sums)):
            row = rows[at * ensemble.columns : (at + 1) * ensemble.columns]
            total = np.float32(0)
            for nodes in by_number:
                total += leaf(nodes, row)
            sums[at] = total

    return score


def alone_in_onnx_runtime(path, rows):
    """Labels and probabilities of each row alone, by one thread: runs of many rows may add in another order."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options)
    answers = [session.run(None, {"input": rows[at : at + 1]}) for at in range(len(rows))]
    return [np.concatenate(column) for column in zip(*answers, strict=True)]


def document(rows):
    tensor = {"name": "input", "datatype": "FP32", "shape": list(rows.shape), "data": rows.ravel().tolist()}
    return {"id": str(len(rows)), "inputs": [tensor]}


def test_trees_are_read_with_every_node_and_leaf_of_the_file(gbdt, trees):
    path, rows = gbdt
    ensemble = trees.read_ensemble(str(path))
    (told,) = [node for node in onnx.load(path).graph.node if node.op_type == "TreeEnsembleClassifier"]
    modes = next(one for one in told.attribute if one.name == "nodes_modes").strings
    leaves = [mode for mode in modes if mode == b"LEAF"]
    assert (len(ensemble.trees), ensemble.columns) == (20, rows.shape[1])
    assert sum(map(len, ensemble.trees)) == len(modes)
    assert sum(node.leaf is not None for tree in ensemble.trees for node in tree) == len(leaves)
    assert [ensemble.label, ensemble.probabilities] == [one.name for one in onnxruntime.InferenceSession(path).get_outputs()]


def test_trees_answer_as_onnx_runtime_does_to_the_bit(gbdt, trees):
    path, rows = gbdt
    ensemble = trees.read_ensemble(str(path))
    model = trees.TreeModel(ensemble, scorer_of(ensemble))
    labels, probabilities = alone_in_onnx_runtime(path, rows)
    alone = [model.infer(document(rows[at : at + 1])) for at in range(ROWS)]
    together = model.infer_many([document(rows[:7]), document(rows[7:8]), document(rows[8:])])
    for answers in (alone, together):
        given = [np.concatenate([answer["outputs"][at]["data"] for answer in answers]) for at in (0, 1)]
        assert given[0].tolist() == labels.tolist()
        assert given[1].astype(np.float32).tobytes() == probabilities.tobytes()
    assert [answer["id"] for answer in together] == ["7", "1", str(ROWS - 8)]
    assert [answer["outputs"][1]["shape"] for answer in together] == [[7, 2], [1, 2], [ROWS - 8, 2]]


def test_a_model_without_trees_is_refused(tmp_path, trees):
    with pytest.raises(SystemExit, match="not one TreeEnsembleClassifier"):
        trees.read_ensemble(str(make_mlp(tmp_path / "m.onnx")))


@pytest.mark.parametrize(
    ("name", "value"),
    [("post_transform", b"SOFTMAX"), ("classlabels_int64s", [1, 2]), ("nodes_modes", b"BRANCH_LT")],
)
def test_trees_of_another_kind_are_refused(gbdt, trees, tmp_path, name, value):
    model = onnx.load(gbdt[0])
    (node,) = [one for one in model.graph.node if one.op_type == "TreeEnsembleClassifier"]
    (attribute,) = [one for one in node.attribute if one.name == name]
    if name == "nodes_modes":
        attribute.strings[0] = value
    else:
        attribute.CopyFrom(onnx.helper.make_attribute(name, value))
    onnx.save(model, tmp_path / "other.onnx")
    with pytest.raises(SystemExit, match="not a binary classifier of BRANCH_LEQ nodes with LOGISTIC"):
        trees.read_ensemble(str(tmp_path / "other.onnx"))


def test_a_model_is_compiled_once_and_again_when_it_or_its_compiler_changes(tmp_path, trees, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    made = []

    def make(path):
        made.append(path)
        path.write_text("compiled")

    model, script = tmp_path / "m.onnx", tmp_path / "serve.py"
    for contents in ("one", "one", "other"):
        model.write_text(contents)
        script.write_text("serve")
        assert trees.compiled_once(str(model), str(script), make).read_text() == "compiled"
    script.write_text("serve otherwise")
    trees.compiled_once(str(model), str(script), make)
    assert len(made) == 3
    assert len(list((tmp_path / "compiled").iterdir())) == 3


# The bare ASGI application.


@pytest.fixture(scope="module")
def bare():
    """The application's module, with JSON of the standard library for orjson and without a server."""
    codecs = SimpleNamespace(codec=lambda _: (json.loads, lambda document: json.dumps(document).encode()))
    serving = SimpleNamespace(UVICORN={}, say_ready_when=None)
    replaced = {"json_codecs": codecs, "uvicorn": SimpleNamespace(), "serving": serving}
    with pytest.MonkeyPatch.context() as patch:
        for name, stand_in in replaced.items():
            patch.setitem(sys.modules, name, stand_in)
        return common("bare_asgi")


class Echo:
    """Answers a document with itself, keeps the sizes of its runs, and fails for a document that says so."""

    def __init__(self):
        self.runs = []

    def infer(self, document):
        return self.infer_many([document])[0]

    def infer_many(self, documents):
        self.runs.append(len(documents))
        if any("fail" in document for document in documents):
            raise ValueError("this document fails")
        return documents


PATH = "/v2/models/m/infer"


async def ask(app, *messages, path=PATH):
    """A request of these messages; what was sent back."""
    left, sent = list(messages), []

    async def receive():
        return left.pop(0)

    async def send(message):
        sent.append(message)

    await app({"type": "http", "path": path}, receive, send)
    return [message.get("status", message.get("body")) for message in sent]


def part(body, *, more=False):
    return {"type": "http.request", "body": body, "more_body": more}


GONE = {"type": "http.disconnect"}


@pytest.mark.parametrize(
    ("messages", "path", "answer"),
    [
        ([part(b'{"a":1}')], PATH, [200, b'{"a": 1}']),
        ([part(b'{"a"', more=True), part(b":1}")], PATH, [200, b'{"a": 1}']),
        ([GONE], PATH, []),
        ([part(b'{"a"', more=True), GONE], PATH, []),
        ([], "/v2/health/ready", [200, b"{}"]),
        ([], "/v2/models/other/infer", [404, b"{}"]),
    ],
)
@pytest.mark.parametrize("max_batch", [1, 32])
def test_the_bare_application_answers_one_path_and_nobody_who_left(bare, max_batch, messages, path, answer):
    assert asyncio.run(ask(bare.App(Echo(), PATH, max_batch), *messages, path=path)) == answer


def test_requests_that_one_turn_of_the_loop_reads_share_a_run(bare):
    model = Echo()
    app = bare.App(model, PATH, 4)

    async def many():
        return await asyncio.gather(*(ask(app, part(b"[%d]" % number)) for number in range(10)))

    assert asyncio.run(many()) == [[200, b"[%d]" % number] for number in range(10)]
    assert model.runs == [4, 4, 2]


@pytest.mark.parametrize("body", [b"{}", b'{"fail":1}'])
def test_a_caller_that_is_cancelled_holds_up_no_other_of_its_batch(bare, body):
    app = bare.App(Echo(), PATH, 4)

    async def many():
        asked = [asyncio.ensure_future(ask(app, part(one))) for one in (body, body, b"{}")]
        asyncio.get_running_loop().call_soon(asked[0].cancel)
        return await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), timeout=10)

    first, second, third = asyncio.run(many())
    assert isinstance(first, asyncio.CancelledError)
    if body == b"{}":
        assert second == third == [200, b"{}"]
    else:
        assert [str(second), str(third)] == ["this document fails"] * 2
