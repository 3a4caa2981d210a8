"""A model that cannot be served is refused with its reason, and nothing else is touched."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.support import serving, snapshots
from tests.support.onnx_models import Arrays, row
from tests.support.serving import Server
from tests.support.wire import Http, assert_same, infer_path, json_request

REASONS = {
    "zipmap": r"ZipMap.*zipmap.*False",
    "unknown_op": r"operator.*NoSuchOp",
    "opset_99": r"opset.*99",
    "truncated": r"not an ONNX model",
    "external_outside": r"\.\./outside\.bin.*in the model's own folder",
}
Model = Callable[[str], Path]


@pytest.mark.parametrize(("name", "reason"), REASONS.items(), ids=REASONS.keys())
def test_serve_exits_3_and_says_why(model: Model, name: str, reason: str) -> None:
    ending = serving.run([*serving.flyball(), "serve", str(model(name)), "--listen", "127.0.0.1:0"])
    assert ending.code == 3
    assert re.search(reason, " ".join(ending.text.split())), ending.text
    assert not any(line.startswith("ready") for line in ending.stdout)
    assert "Traceback" not in ending.text


def test_serve_exits_3_when_one_of_two_models_is_refused(model: Model) -> None:
    paths = [str(model("linear")), str(model("zipmap"))]
    ending = serving.run([*serving.flyball(), "serve", *paths, "--listen", "127.0.0.1:0"])
    assert ending.code == 3
    assert not any(line.startswith("ready") for line in ending.stdout)


@pytest.mark.parametrize("program", ["flyball", "flyballd"])
def test_a_snapshot_serves_the_others_and_logs_each_refusal(
    model: Model,
    reference: Callable[[str, Arrays], Arrays],
    start: Callable[..., Server],
    tmp_path: Path,
    program: str,
) -> None:
    documents = [snapshots.deployment(name, model(name)) for name in ["linear", *REASONS]]
    index = snapshots.write(tmp_path, 1, documents)
    command = serving.serve_snapshot() if program == "flyball" else serving.flyballd()
    server = start(*command, "--snapshot", index, "--listen", "127.0.0.1:0")
    assert server.models == {"linear:1"}
    for name, reason in REASONS.items():
        line = server.log_line(lambda fields, name=name: name in str(fields) and "refused" in str(fields).lower())
        assert re.search(reason, str(line)), line
    inputs = row("linear", 1)
    with Http(server) as connection:
        assert_same(connection.infer("linear", inputs), reference("linear", inputs))
        assert connection.get("/v2/models/zipmap/ready").status == 400
        refused = connection.post(infer_path("zipmap"), json_request({"x": np.zeros((1, 2), np.float32)}))
        assert refused.status == 503
        assert "ZipMap" in refused.error
        assert connection.get("/v2/health/ready").status == 200


@pytest.mark.parametrize("program", ["flyball", "flyballd"])
def test_a_snapshot_of_which_nothing_can_be_served_exits_3(model: Model, tmp_path: Path, program: str) -> None:
    index = snapshots.write(tmp_path, 1, [snapshots.deployment("zipmap", model("zipmap"))])
    command = serving.serve_snapshot() if program == "flyball" else serving.flyballd()
    ending = serving.run([*command, "--snapshot", str(index), "--listen", "127.0.0.1:0"])
    assert ending.code == 3
    assert "ZipMap" in ending.text


def test_a_model_that_changed_since_its_snapshot_is_refused(model: Model, tmp_path: Path) -> None:
    wrong = "sha256:" + "0" * 64
    index = snapshots.write(tmp_path, 1, [snapshots.deployment("a", model("linear"), artifact_digest=wrong)])
    ending = serving.run([*serving.flyballd(), "--snapshot", str(index), "--listen", "127.0.0.1:0"])
    assert ending.code == 3
    assert wrong in ending.text


def test_a_snapshot_that_does_not_parse_is_refused_whole(tmp_path: Path) -> None:
    index = tmp_path / "index.json"
    index.write_text('{"format": 1, "generation": 0, "deployments": [], "extra": true}')
    ending = serving.run([*serving.flyballd(), "--snapshot", str(index), "--listen", "127.0.0.1:0"])
    assert ending.code == 3
    assert "generation" in ending.text
    assert "extra" in ending.text


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["serve"], 2),
        (["serve", "--no-such-flag"], 2),
        (["serve", "no-such-file.onnx"], 3),
        (["inspect", "no-such-file.onnx"], 3),
        (["no-such-verb"], 2),
    ],
    ids=["nothing to serve", "no such flag", "serve no such file", "inspect no such file", "no such verb"],
)
def test_a_wrong_command_line_ends_with_its_exit_code_and_no_traceback(arguments: list[str], code: int) -> None:
    ending = serving.run([*serving.flyball(), *arguments])
    assert ending.code == code, ending.text
    assert ending.text
    assert "Traceback" not in ending.text


def test_the_same_models_are_refused_by_inspect_for_the_same_reason(model: Model) -> None:
    ending = serving.run([*serving.flyball(), "inspect", str(model("zipmap"))])
    assert ending.code == 3
    assert re.search(REASONS["zipmap"], " ".join(ending.text.split())), ending.text
