"""A Snapshot on disk, mostly with flyballd: read at the start, again at SIGHUP, applied deployment by deployment."""

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from tests.support import command_line, onnx_models, serving, snapshots
from tests.support.crowd import crowd
from tests.support.onnx_models import Arrays, row
from tests.support.serving import Server, until
from tests.support.wire import Http, assert_same, infer_path, json_request, metrics, raw_infer, raws

Model = Callable[[str], Path]
Reference = Callable[[str, Arrays], Arrays]


@pytest.fixture
def flyballd(start: Callable[..., Server]) -> Callable[[Path], Server]:
    return lambda index: start(*serving.flyballd(), "--snapshot", index, "--listen", "127.0.0.1:0")


def answer_of(path: Path, inputs: Arrays) -> Arrays:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def test_a_changed_snapshot_is_applied_deployment_by_deployment(
    model: Model, reference: Reference, flyballd: Callable[[Path], Server], tmp_path: Path
) -> None:
    old = onnx_models.linear(tmp_path, "old", seed=1)
    new = onnx_models.linear(tmp_path, "new", seed=2)
    folder = tmp_path / "snapshot"
    kept, same = snapshots.deployment("kept", old), snapshots.deployment("linear", model("linear"))
    gone = snapshots.deployment("gone", old)
    index = snapshots.write(folder, 1, [kept, same, gone, snapshots.deployment("changing", old)])
    server = flyballd(index)
    assert server.models == {"kept:1", "linear:1", "gone:1", "changing:1"}

    broken = snapshots.deployment("kept", new, artifact_digest="sha256:" + "0" * 64)
    changed, fresh = snapshots.deployment("changing", new), snapshots.deployment("fresh", new)
    inputs = row("linear", 7)
    with crowd(server, "linear", reference, connections=4), Http(server) as connection:  # the unchanged one
        assert_same(connection.infer("changing", inputs), answer_of(old, inputs))
        snapshots.write(folder, 2, [broken, same, changed, fresh])
        server.signal(signal.SIGHUP)
        wanted = answer_of(new, inputs)["y"].tobytes()
        until("the changed model answers", lambda: connection.infer("changing", inputs)["y"].tobytes() == wanted or None)
        until("the new model answers", lambda: _status(connection, "fresh", inputs) == 200 or None)
        until("the removed model is gone", lambda: _status(connection, "gone", inputs) == 404 or None)
        line = server.log_line(lambda fields: "kept" in str(fields) and "refused" in str(fields).lower())
        assert "0" * 64 in str(line)
        assert_same(connection.infer("kept", inputs), answer_of(old, inputs))
    assert server.stop().code == 0


def _status(connection: Http, name: str, inputs: Arrays) -> int:
    return connection.post(infer_path(name), json_request(inputs)).status


def test_an_index_that_does_not_parse_is_refused_whole_and_the_old_state_serves_on(
    model: Model, reference: Reference, flyballd: Callable[[Path], Server], tmp_path: Path
) -> None:
    index = snapshots.write(tmp_path, 1, [snapshots.deployment("linear", model("linear"))])
    server = flyballd(index)
    index.write_text('{"format": 1, "generation": 2, "deployments": [], "colour": "red"}')
    server.signal(signal.SIGHUP)
    server.log_line(lambda fields: "colour" in str(fields))
    inputs = row("linear", 1)
    with Http(server) as connection:
        assert_same(connection.infer("linear", inputs), reference("linear", inputs))


def test_two_versions_are_served_and_the_route_chooses_the_default(
    model: Model, flyballd: Callable[[Path], Server], tmp_path: Path
) -> None:
    first, second = onnx_models.linear(tmp_path, "v1", seed=1), onnx_models.linear(tmp_path, "v2", seed=2)
    document = snapshots.deployment("m", first, versions={"1": first, "2": second})
    document["route"]["version"] = "1"
    server = flyballd(snapshots.write(tmp_path / "s", 1, [document]))
    inputs = row("linear", 1)
    with Http(server) as connection:
        assert_same(connection.infer("m", inputs), answer_of(first, inputs))
        by_version = connection.post("/v2/models/m/versions/2/infer", json_request(inputs)).json
        assert by_version["model_version"] == "2"
        assert np.array(by_version["outputs"][0]["data"], np.float32).tobytes() == (answer_of(second, inputs)["y"].tobytes())
        assert connection.get("/v2/models/m").json["versions"] == ["1", "2"]


def test_weights_in_a_file_beside_the_model_are_verified_and_served(
    model: Model, reference: Reference, flyballd: Callable[[Path], Server], tmp_path: Path
) -> None:
    path = model("external")
    weights = path.parent / "external-weights.bin"
    document = snapshots.deployment("external", path, external_data=[weights])
    server = flyballd(snapshots.write(tmp_path, 1, [document]))
    inputs = row("external", 1)
    with Http(server) as connection:
        assert_same(connection.infer("external", inputs), reference("external", inputs))


def test_weights_that_the_snapshot_does_not_list_are_refused(model: Model, tmp_path: Path) -> None:
    index = snapshots.write(tmp_path, 1, [snapshots.deployment("external", model("external"))])
    ending = serving.run([*serving.flyballd(), "--snapshot", str(index), "--listen", "127.0.0.1:0"])
    assert ending.code == 3
    assert "external-weights.bin" in ending.text


@pytest.mark.parametrize("program", ["flyball", "flyballd"])
@pytest.mark.parametrize("named", ["absolute", "relative"])
def test_relative_paths_are_relative_to_the_index_wherever_the_server_was_started(
    model: Model, start: Callable[..., Server], tmp_path: Path, program: str, named: str
) -> None:
    folder, elsewhere = tmp_path / "snapshot", tmp_path / "elsewhere"
    elsewhere.mkdir()
    first, second = _beside_the_index(folder, "linear", model), _beside_the_index(folder, "many", model)
    index = snapshots.write(folder, 1, [first])
    command = serving.serve_snapshot() if program == "flyball" else serving.flyballd()
    shown = index if named == "absolute" else Path("../snapshot/index.json")
    server = start(*command, "--snapshot", shown, "--listen", "127.0.0.1:0", cwd=elsewhere)
    with Http(server) as connection:
        assert _status(connection, "linear", row("linear", 1)) == 200
        snapshots.write(folder, 2, [first, second])
        server.signal(signal.SIGHUP)
        until("the new model answers", lambda: _status(connection, "many", row("many", 1)) == 200 or None)


def _beside_the_index(folder: Path, name: str, model: Model) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.onnx").write_bytes(model(name).read_bytes())
    document = snapshots.deployment(name, model(name))
    document["versions"][0]["artifact"]["path"] = f"{name}.onnx"
    return document


def test_a_deployment_s_in_flight_limit_refuses_at_the_door(
    model: Model, flyballd: Callable[[Path], Server], tmp_path: Path
) -> None:
    document = snapshots.deployment("slow", model("slow"), limits={"in_flight_max": 1})
    server = flyballd(snapshots.write(tmp_path, 1, [document]))
    with raws(server, 8) as connections:
        for raw in connections:
            raw.send(raw_infer("slow", row("slow", 1)))
        replies = [reply for raw in connections if (reply := raw.reply())]
    assert {reply.status for reply in replies} == {200, 503}
    for reply in replies:
        if reply.status == 503:
            assert reply.headers["retry-after"] == "1"
            assert "in flight" in reply.error
    assert metrics(server).sum("flyball_faults_total", model="slow", kind="in_flight_full") > 0


def test_flyballd_says_its_version() -> None:
    ending = serving.run([*serving.flyballd(), "--version"])
    assert ending.code == 0
    assert ending.stdout[0].startswith("flyballd ")


@pytest.mark.parametrize("config", [{"colour": "red"}, {"lanes": 0, "body_bytes_max": 1}], ids=["unknown", "limits"])
def test_flyballd_refuses_a_bad_config_and_names_each_key(model: Model, tmp_path: Path, config: dict[str, Any]) -> None:
    index = snapshots.write(tmp_path, 1, [snapshots.deployment("linear", model("linear"))])
    (tmp_path / "config.json").write_text(json.dumps(config))
    command = [*serving.flyballd(), "--snapshot", str(index), "--config", str(tmp_path / "config.json")]
    ending = serving.run(command)
    assert ending.code == 3
    for key in config:
        assert key in ending.text


def test_a_snapshot_that_was_moved_is_served_without_its_original_models(
    model: Model, reference: Reference, start: Callable[..., Server], tmp_path: Path
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    for source in (model("linear"), model("external"), model("external").parent / "external-weights.bin"):
        (here / source.name).write_bytes(source.read_bytes())
    made = command_line.flyball("snapshot", "linear.onnx", "heavy=external.onnx", "--out", "snapshot", cwd=here)
    assert made.code == 0, made.text
    (here / "snapshot").rename(there)
    shutil.rmtree(here)
    server = start(*serving.flyballd(), "--snapshot", there / "index.json", "--listen", "127.0.0.1:0", cwd=tmp_path)
    with Http(server) as connection:
        for name, kind in (("linear", "linear"), ("heavy", "external")):
            assert_same(connection.infer(name, row(kind, 1)), reference(kind, row(kind, 1)))
