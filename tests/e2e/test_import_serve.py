"""`flyball import … --serve`: one command takes a model and serves it at once, as its file answers."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tests.support import command_line, model_repositories, onnx_models, parts, serving
from tests.support.serving import Server
from tests.support.wire import Http, assert_same

INPUTS = {"x": np.arange(8, dtype=np.float32).reshape(2, 4)}


def expected(path: Path) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return {"y": session.run(["y"], INPUTS)[0]}


def test_the_newest_version_of_a_repository_in_tritons_layout_is_served(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    model_repositories.add(tmp_path / "models", "fraud", "version_policy { all { } }", versions=(1, 2))
    command = [*serving.flyball(), "import", "triton", tmp_path / "models", "--serve", "--listen", "127.0.0.1:0"]
    server = start(*command, cwd=tmp_path)
    assert server.models == {"fraud:1"}
    with Http(server) as http:
        assert_same(http.infer("fraud", INPUTS), expected(tmp_path / "models" / "fraud" / "2" / "model.onnx"))
    listed = command_line.flyball("registry", "show", "fraud@2", cwd=tmp_path)
    assert "models/fraud/2 (Triton's layout)" in listed.text
    assert server.stop().code == 0


class Mlflow:
    """A real MLflow server in an environment of its own, with its artifact proxy."""

    def __init__(self, folder: Path) -> None:
        python = parts.program("mlflow", variable="FLYBALL_MLFLOW_PYTHON")
        self._python, self._folder = python, folder
        self.port = serving.free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        database = f"sqlite:///{folder / 'mlflow.db'}"
        command = [python, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port), "--workers", "1",
                   "--backend-store-uri", database, "--artifacts-destination", str(folder / "artifacts")]  # fmt: skip
        with (folder / "mlflow.log").open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=folder, env=self._environment(), stdout=log, stderr=log, start_new_session=True
            )
        until = time.monotonic() + 200
        while not self._answers():
            assert self._process.poll() is None, (folder / "mlflow.log").read_text()
            assert time.monotonic() < until, "mlflow does not answer"
            time.sleep(0.1)

    def log(self, code: str, *arguments: str) -> None:
        """Runs Python beside MLflow, which logs and registers a model."""
        done = subprocess.run(
            [self._python, "-c", code, *arguments], cwd=self._folder, env=self._environment(), text=True,
            capture_output=True, timeout=200, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    def _environment(self) -> dict[str, str]:
        """Its packages are its own, and it tells nobody that it runs."""
        quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
        return {**os.environ, **quiet, "MLFLOW_TRACKING_URI": self.url, "PYTHONPATH": ""}

    def stop(self) -> None:
        os.killpg(self._process.pid, 9)
        self._process.wait()

    def _answers(self) -> bool:
        import urllib3

        try:
            return urllib3.request("GET", f"{self.url}/health", retries=False, timeout=2).status == 200
        except urllib3.exceptions.HTTPError:
            return False


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mlflow]:
    server = Mlflow(tmp_path_factory.mktemp("mlflow"))
    yield server
    server.stop()


ONNX = """
import sys, mlflow, onnx, numpy as np
from mlflow.models import infer_signature
model = onnx.load(sys.argv[1])
with mlflow.start_run():
    mlflow.log_param("trees", 200)
    mlflow.log_metric("auc", 0.91)
    signature = infer_signature(np.zeros((2, 4), np.float32), {"y": np.zeros((2, 2), np.float32)})
    mlflow.onnx.log_model(model, name="model", signature=signature, registered_model_name=sys.argv[2])
mlflow.MlflowClient().set_registered_model_alias(sys.argv[2], "champion", "1")
"""
PYFUNC = """
import sys, mlflow

class Evil(mlflow.pyfunc.PythonModel):
    def predict(self, context, model_input: list[str], params=None) -> list[str]:
        return model_input

with mlflow.start_run():
    mlflow.pyfunc.log_model(name="model", python_model=Evil(), registered_model_name=sys.argv[1])
"""


def two_layers(folder: Path) -> Path:
    """With weights that are large enough for MLflow to put them beside the model."""
    weights = {"v": onnx_models.rng(1).normal(size=(4, 512)), "w": onnx_models.rng(2).normal(size=(512, 2))}
    nodes = [helper.make_node("MatMul", ["x", "v"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["y"])]
    inputs, outputs = ([onnx_models.value(name, TensorProto.FLOAT, ["n", size])] for name, size in (("x", 4), ("y", 2)))
    constants = {name: array.astype(np.float32) for name, array in weights.items()}
    return onnx_models.save(folder / "two_layers.onnx", nodes, inputs, outputs, constants)


@pytest.mark.timeout(280)
def test_a_model_of_a_real_mlflow_server_is_served_with_one_command(
    mlflow: Mlflow, start: Callable[..., Server], tmp_path: Path
) -> None:
    path = two_layers(tmp_path)
    mlflow.log(ONNX, str(path), "Fraud model")
    command = ["import", "mlflow", "models:/Fraud model@champion", "--tracking", mlflow.url]
    server = start(*serving.flyball(), *command, "--serve", "--listen", "127.0.0.1:0", cwd=tmp_path)
    assert server.models == {"Fraud-model:1"}
    with Http(server) as http:
        assert_same(http.infer("Fraud-model", INPUTS), expected(path))
    shown = command_line.flyball("registry", "show", "Fraud-model@1", "--json", cwd=tmp_path)
    version = json.loads("\n".join(shown.stdout))
    assert version["meta"]["metrics"] == {"auc": 0.91}
    assert version["meta"]["lineage"]["parameters"]["parameters"] == {"trees": "200"}
    assert version["meta"]["notes"] == ""
    assert len(version["files"]) > 2, "the weights lie beside the model"
    assert server.stop().code == 0


@pytest.mark.timeout(280)
def test_a_python_function_of_a_real_mlflow_server_is_refused_with_advice(mlflow: Mlflow, tmp_path: Path) -> None:
    mlflow.log(PYFUNC, "evil")
    assert command_line.flyball("registry", "init", "home", cwd=tmp_path).code == 0
    command = ["import", "mlflow", "models:/evil/1", "--tracking", mlflow.url, "--registry", "home"]
    ending = serving.run([*serving.flyball(), *command], cwd=tmp_path)
    assert ending.code == 3
    assert "has no ONNX flavour" in ending.text
    assert "mlflow.onnx.log_model" in ending.text
