"""Models that do harm for some values of their input: each run fails alone, and the server's memory stays bounded."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from bench.claims.hardening.zoo import all_hostile
from tests.support import serving, snapshots
from tests.support.onnx_models import Arrays, row
from tests.support.serving import Server
from tests.support.wire import Http, assert_same, infer_path, json_request, metrics

Model = Callable[[str], Path]
Reference = Callable[[str, Arrays], Arrays]

BUDGET_MIB, RUN_MIB = 512, 64
GROWING = ["range", "expand", "outer_sum", "doubling", "collecting", "sequence", "texts_joined", "texts_expanded"]
TRAPPING = ["dividing", "frameless"]
HOSTILE = {hostile.name: hostile for hostile in all_hostile()}


def kilobytes(server: Server, key: str) -> int:
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("zoo")
    for name in [*GROWING, *TRAPPING, "constant_of_shape"]:
        onnx.save(HOSTILE[name].make(), str(folder / f"{name}.onnx"))
    return {path.stem: path for path in folder.iterdir()}


@pytest.fixture
def begin(start: Callable[..., Server], tmp_path: Path) -> Callable[..., Server]:
    def begun(models: dict[str, Path], **settings: Any) -> Server:
        index = snapshots.write(tmp_path, 1, [snapshots.deployment(name, path) for name, path in models.items()])
        config = tmp_path / "config.json"
        config.write_text(json.dumps({"lanes": 1, **settings}))
        return start(*serving.flyballd(), "--snapshot", index, "--listen", "127.0.0.1:0", "--config", config)

    return begun


def test_a_run_that_grows_with_its_input_fails_alone_and_memory_is_given_back(
    begin: Callable[..., Server], zoo: dict[str, Path], model: Model, reference: Reference
) -> None:
    models = {name: zoo[name] for name in GROWING} | {"linear": model("linear")}
    server = begin(models, memory_bytes_max=BUDGET_MIB << 20, run_memory_bytes_max=RUN_MIB << 20)
    wanted = reference("linear", row("linear", 1))
    with Http(server, 60.0) as connection:
        assert_same(connection.infer("linear", row("linear", 1)), wanted)
        before = kilobytes(server, "VmRSS")
        for name in GROWING:
            reply = connection.post(infer_path(name), {"inputs": HOSTILE[name].inputs})
            assert reply.status == 422, (name, reply.status, reply.error)
            assert f"a run may use {RUN_MIB} MiB (run_memory_bytes_max)" in reply.error, (name, reply.error)
            assert_same(connection.infer("linear", row("linear", 1)), wanted)
        assert kilobytes(server, "VmHWM") < BUDGET_MIB << 10
        for name in GROWING:
            kinds = metrics(server).sum("flyball_faults_total", model=name, kind="run_memory_exceeded", stage="infer")
            assert kinds == 1, name
    serving.until("resident memory is back within 10 %", lambda: kilobytes(server, "VmRSS") <= 1.1 * before or None, 30.0)


@pytest.mark.parametrize("name", TRAPPING)
def test_a_division_that_the_processor_traps_fails_its_own_request(
    begin: Callable[..., Server], zoo: dict[str, Path], model: Model, reference: Reference, name: str
) -> None:
    """SIGFPE would end the server."""
    server = begin({name: zoo[name], "linear": model("linear")})
    with Http(server) as connection:
        for _ in range(3):
            reply = connection.post(infer_path(name), {"inputs": HOSTILE[name].inputs})
            assert reply.status == 500, reply.error
            assert reply.error.endswith("it divided an integer by zero, or the smallest integer by -1")
            assert connection.post(infer_path(name), json_request({"n": np.array([[7]])})).status == 200
        assert_same(connection.infer("linear", row("linear", 1)), reference("linear", row("linear", 1)))
    assert metrics(server).sum("flyball_faults_total", model=name, kind="run_failed", stage="infer") == 3


def test_a_run_for_which_the_process_has_no_memory_left_is_refused_and_may_come_again(
    begin: Callable[..., Server], zoo: dict[str, Path]
) -> None:
    # The run alone may have more than the process has left.
    server = begin(
        {"m": zoo["constant_of_shape"]}, memory_bytes_max=BUDGET_MIB << 20, run_memory_bytes_max=4 * BUDGET_MIB << 20
    )
    with Http(server) as connection:
        reply = connection.post(infer_path("m"), json_request({"n": np.array([[BUDGET_MIB << 18]])}))
        assert (reply.status, reply.headers.get("retry-after")) == (503, "1"), reply.error
        assert "memory_bytes_max" in reply.error
        assert connection.infer("m", {"n": np.array([[3]])})["y"].tolist() == [0.0, 0.0, 0.0]


def test_an_answer_over_the_limit_is_refused_as_json_and_given_as_binary(
    begin: Callable[..., Server], zoo: dict[str, Path]
) -> None:
    server = begin({"m": zoo["constant_of_shape"]}, answer_bytes_max=1 << 20)
    with Http(server) as connection:
        count = np.array([[100_000]])
        reply = connection.post(infer_path("m"), json_request({"n": count}))
        assert reply.status == 422
        assert "1048576 are allowed (answer_bytes_max)" in reply.error
        assert "binary_data_output" in reply.error
        assert connection.infer_binary("m", {"n": count})["y"].shape == (100_000,)
        assert len(connection.infer("m", {"n": count // 2})["y"]) == 50_000
        assert (
            connection.post(infer_path("m"), json_request({"n": count * 3}, parameters={"binary_data_output": True})).status
            == 422
        )
    assert metrics(server).sum("flyball_faults_total", model="m", kind="answer_too_large", stage="respond") == 2


def test_the_memory_of_a_large_answer_is_given_back(begin: Callable[..., Server], zoo: dict[str, Path]) -> None:
    server = begin({"m": zoo["constant_of_shape"]})
    with Http(server, 60.0) as connection:
        # A smaller one of the same kind: the code that it takes is resident from then on.
        connection.infer("m", {"n": np.array([[1_000_000]])})
        before, peak = kilobytes(server, "VmRSS"), kilobytes(server, "VmHWM")
        elements = 10_000_000
        reply = connection.post(infer_path("m"), json_request({"n": np.array([[elements]])}))
        assert (reply.status, len(reply.body) // elements) == (200, 4)
        # The tensor and its text, 40 MB each, and half as much again.
        assert kilobytes(server, "VmHWM") - peak < 120_000
    serving.until("resident memory is back within 10 %", lambda: kilobytes(server, "VmRSS") <= 1.1 * before or None, 30.0)
