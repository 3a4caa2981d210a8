"""`expose: tensors`: a decision's models answer tensors too, and every such call is a record without values."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from flyball.native.journal import JournalLog
from tests.support import journal_servers, serving, snapshots
from tests.support.decision_documents import deployment, document, thousandth
from tests.support.journal_servers import SETTINGS
from tests.support.raw_h2 import Connection, frame
from tests.support.serving import Server
from tests.support.wire import Http

BODY = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 1], "data": [420.0, 700.0]}]}
PATH = "/v2/models/pay/infer"
KEY = {"x-api-key": "modeller"}


def command(folder: Path, *, journal: bool = True) -> list[str]:
    index = snapshots.write(folder, 1, [deployment(document(expose="tensors"), {"1": thousandth(folder)})])
    may = ["infer:pay", "decide:other"]
    callers = [
        {"name": name, "keys_sha256": [hashlib.sha256(name.encode()).hexdigest()], "may": rights}
        for name, rights in (("modeller", may), ("decider", ["decide:pay"]))
    ]
    (folder / "callers.json").write_text(json.dumps({"callers": callers}))
    config = {**SETTINGS, "callers": str(folder / "callers.json")}
    if journal:
        config["journal_folder"] = str(folder / "journal")
    (folder / "config.json").write_text(json.dumps(config))
    return [
        *serving.flyballd(),
        "--snapshot",
        str(index),
        "--listen",
        "127.0.0.1:0",
        "--config",
        str(folder / "config.json"),
    ]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving.serving(command(tmp_path)) as running:
        yield running


def test_a_call_with_tensors_is_answered_and_recorded_without_its_values(server: Server, tmp_path: Path) -> None:
    with Http(server) as connection:
        answered = connection.post(PATH, BODY, **KEY)
        assert answered.status == 200
        assert answered.json["outputs"][0]["data"] == pytest.approx([0.42, 0.7])
        refused = connection.post(PATH, BODY, **{"x-api-key": "decider"})
        assert (refused.status, '"infer:pay"' in refused.error) == (403, True)
    server.stop()
    [record] = journal_servers.records(tmp_path / "journal", "tensors")
    digest = hashlib.sha256((tmp_path / "thousandth.onnx").read_bytes()).digest()
    assert (record["decision"], record["models"]) == ("pay", [["m", "1", digest]])
    assert (record["caller"], record["protocol"], record["rows"]) == ("modeller", "http", 2)
    assert "input" not in record
    assert record["personal"], "the digest of the inputs is encrypted"


def test_whoever_has_the_request_and_the_keys_can_show_that_it_is_the_recorded_one(server: Server, tmp_path: Path) -> None:
    with Http(server) as connection:
        assert connection.post(PATH, BODY, **KEY).status == 200
    server.stop()
    hashed = hashlib.sha256()
    axes = [(2).to_bytes(8, "little"), (1).to_bytes(8, "little")]
    elements = bytes.fromhex("0000d243") + bytes.fromhex("00002f44")
    for part in (b"x", b"FP32", *axes, elements):
        hashed.update(len(part).to_bytes(8, "little") + part)
    sealed = next(iter(JournalLog(tmp_path / "journal").records(kinds=["tensors"])))
    assert sealed["personal"] == "sealed"
    opened = next(iter(JournalLog(tmp_path / "journal", reveal=True).records(kinds=["tensors"])))
    assert opened["input"]["tensors"] in (hashed.hexdigest(), f"sha256:{hashed.hexdigest()}")


def test_grpc_calls_and_streams_are_recorded_too(server: Server, tmp_path: Path) -> None:
    tensor = b"\x0a\x01x" + b"\x12\x04FP32" + b"\x1a\x02\x01\x01"
    message = b"\x0a\x03pay" + b"\x2a" + bytes([len(tensor)]) + tensor + b"\x3a\x04\x00\x00\xd2\x43"
    service = "/inference.GRPCInferenceService/"
    with Connection(server) as connection:
        for method in ("ModelInfer", "ModelStreamInfer"):
            assert connection.call(frame(message), service + method, x_api_key="modeller").status == 0, method
    server.stop()
    records = journal_servers.records(tmp_path / "journal", "tensors")
    assert [(record["protocol"], record["caller"]) for record in records] == [("grpc", "modeller")] * 2


def test_a_server_without_a_journal_refuses_to_expose_tensors(tmp_path: Path) -> None:
    ending = serving.run(command(tmp_path, journal=False))
    assert ending.code != 0
    assert "give it one by journal_folder, or take `expose` out" in ending.text
