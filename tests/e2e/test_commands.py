"""The commands as a person types them: what they print, and how they end."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.support import command_line, serving
from tests.support.onnx_models import Arrays
from tests.support.serving import Server

Model = Callable[[str], Path]


def flyball(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*serving.flyball(), *arguments], input=stdin, capture_output=True, text=True, timeout=20, check=False
    )


@pytest.mark.parametrize(
    ("name", "on", "reason"),
    [("linear", True, ""), ("gbdt", True, ""), ("int8", False, "."), ("fixed_batch", False, "batch|axis|row")],
)
def test_inspect_says_whether_requests_can_share_a_run_and_why_not(model: Model, name: str, on: bool, reason: str) -> None:
    answer = command_line.flyball("inspect", model(name), "--json")
    assert answer.code == 0, answer.text
    found = json.loads(answer.text)
    assert found["batching"]["on"] is on, found["batching"]
    assert bool(found["batching"]["reason"]) is bool(reason)
    assert found["latency"][0]["rows"] == 1


def test_inspect_shows_names_types_and_shapes(model: Model) -> None:
    answer = flyball("inspect", str(model("many")))
    assert answer.returncode == 0, answer.stderr
    for word in ("amounts", "FP32", "count", "INT64", "known", "BOOL", "mean", "flyball serve"):
        assert word in answer.stdout


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_predict_reads_rows_from_stdin(house: Server, reference: Callable[[str, Arrays], Arrays], scheme: str) -> None:
    url = f"{scheme}://{house.address}"
    answer = flyball("predict", "linear", "--url", url, "--json", stdin="[[1, 2, 3, 4], [5, 6, 7, 8]]")
    assert answer.returncode == 0, answer.stderr
    rows = np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.float32)
    assert np.array_equal(np.array(json.loads(answer.stdout)["y"], np.float32), reference("linear", {"x": rows})["y"])


def test_predict_ends_with_the_exit_code_of_the_fault(house: Server) -> None:
    url = house.url
    nowhere = f"http://127.0.0.1:{serving.free_port()}"
    assert command_line.flyball("predict", "nobody", "--url", url, stdin="[[1]]").code == 3
    assert command_line.flyball("predict", "linear", "--url", url, stdin="[[1, 2]]").code == 3
    assert flyball("predict", "gather", "--url", url, stdin="[[99]]").returncode == 8
    assert command_line.flyball("predict", "linear", "--url", nowhere, stdin="[[1, 2, 3, 4]]").code == 5


def test_doctor_tells_what_the_machine_allows() -> None:
    answer = flyball("doctor")
    assert answer.returncode == 0, answer.stderr
    assert "ONNX Runtime" in answer.stdout


def test_help_and_version_need_no_server() -> None:
    assert flyball("--help").returncode == 0
    version = flyball("--version")
    assert version.returncode == 0
    assert version.stdout.startswith("flyball ")
