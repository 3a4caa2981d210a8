"""`flyball import mlflow` against a server that answers as MLflow does, and as one should not."""

import json

import pytest

from flyball.errors import (
    FlyballError,
    InvalidInputError,
    ModelRefusedError,
    NotFoundError,
    RefusedError,
    UnauthenticatedError,
    UnavailableError,
    UnreachableError,
    UsageError,
)
from flyball.registry.imports.found import sanitised
from flyball.registry.imports.mlflow import fetch
from tests.support import onnx_models
from tests.support.mlflow_server import API, PROXY, RUN, MlflowServer

URI = "models:/fraud model@champion"
MLMODEL = """
artifact_path: model
flavors:
  onnx:
    code: null
    data: {data}
    onnx_version: 1.19.0
    onnx_session_options: {{custom_ops_library: /srv/evil.so}}
    providers: [EvilExecutionProvider]
  python_function:
    data: {data}
    loader_module: mlflow.onnx
model_uuid: 1b2c3d
run_id: {run}
signature:
  inputs: '{inputs}'
  outputs: '{outputs}'
"""
INPUTS = [{"name": "x", "type": "tensor", "tensor-spec": {"dtype": "float32", "shape": [-1, 4]}}]
OUTPUTS = [{"name": "y", "type": "tensor", "tensor-spec": {"dtype": "float32", "shape": [-1, 2]}}]


@pytest.fixture
def server(monkeypatch):
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_USERNAME"):
        monkeypatch.delenv(name, raising=False)
    with MlflowServer() as running:
        yield running


def described(data="model.onnx", inputs=INPUTS, outputs=OUTPUTS):
    return MLMODEL.format(data=data, run=RUN, inputs=json.dumps(inputs), outputs=json.dumps(outputs))


@pytest.fixture
def logged(server, tmp_path):
    """As `mlflow.onnx.log_model` leaves it, with weights beside the model."""
    (tmp_path / "made").mkdir()
    server.put("MLmodel", described())
    server.put("model.onnx", onnx_models.external(tmp_path / "made").read_bytes())
    server.put("external-weights.bin", (tmp_path / "made" / "external-weights.bin").read_bytes())
    server.put("conda.yaml", "name: mlflow-env")
    server.put("requirements.txt", "mlflow")
    server.put("python_model.pkl", b"\x80\x04evil")
    server.put("code/run.py", "import os")
    return server


@pytest.fixture
def fetched(tmp_path):
    folder = tmp_path / "fetched"
    folder.mkdir()
    return lambda server, uri=URI: fetch(uri, folder, tracking=server.url)


def test_an_alias_leads_to_the_model_its_weights_and_its_runs_lineage(logged, fetched):
    found = fetched(logged)
    assert found.name == "fraud model"
    assert sorted(path.name for path in found.model.parent.iterdir()) == ["external-weights.bin", "model.onnx"]
    assert found.source == f"models:/fraud model/3 at {logged.url}"
    assert (found.code, found.data) == ("c0ffee", "payments ab12cd34")
    assert found.metrics == {"auc": 0.91}
    assert found.parameters == {
        "mlflow": {"name": "fraud model", "version": "3", "run_id": RUN, "model_uuid": "1b2c3d"},
        "parameters": {"trees": "200"},
    }
    assert found.notes == ()


def test_a_number_leads_to_the_same(logged, fetched):
    assert fetched(logged, "models:/fraud model/3").source == f"models:/fraud model/3 at {logged.url}"


def test_nothing_but_the_model_and_what_may_hold_its_weights_is_asked_for(logged, fetched):
    fetched(logged)
    files = {path.removeprefix(f"{PROXY}/{logged.root}/") for path, _ in logged.seen if path.startswith(f"{PROXY}/")}
    assert files == {"MLmodel", "model.onnx", "external-weights.bin"}


def test_a_model_in_a_folder_of_its_own_is_found_there(server, fetched, tmp_path):
    server.put("MLmodel", described("data/net.onnx"))
    server.put("data/net.onnx", onnx_models.linear(tmp_path).read_bytes())
    assert fetched(server).model.name == "net.onnx"


def test_a_model_that_was_logged_without_a_run_is_taken_without_lineage(logged, fetched):
    logged.answers[f"{API}/runs/get"] = (404, {}, b'{"error_code": "RESOURCE_DOES_NOT_EXIST"}')
    found = fetched(logged)
    assert (found.code, found.data, found.metrics) == (None, None, {})


def test_names_of_columns_are_kept(logged, fetched):
    columns = [{"name": "amount", "type": "double"}, {"name": "age", "type": "long"}]
    logged.put("MLmodel", described(inputs=columns))
    assert fetched(logged).parameters["columns"] == ["amount", "age"]


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ([{**INPUTS[0], "name": "z"}], "has the input z, and the model has x"),
        ([{**INPUTS[0], "tensor-spec": {"dtype": "float64", "shape": [-1, 4]}}], "is FP64 in the signature and FP32"),
        ([{**INPUTS[0], "tensor-spec": {"dtype": "float32", "shape": [-1, 5]}}], "is [-1, 5] in the signature and [-1, 4]"),
    ],
)
def test_a_signature_that_is_not_the_models_is_told(logged, fetched, inputs, words):
    logged.put("MLmodel", described(inputs=inputs))
    notes = fetched(logged).notes
    assert len(notes) == 1
    assert words in notes[0]


@pytest.mark.parametrize(
    ("flavor", "advice"),
    [("sklearn", "skl2onnx"), ("lightgbm", "onnxmltools"), ("pytorch", "torch.onnx.export"), ("odd", "convert it to ONNX")],
)
def test_a_model_that_is_python_is_refused_with_how_to_convert_it(server, fetched, flavor, advice):
    server.put("MLmodel", f"flavors:\n  python_function: {{loader_module: x}}\n  {flavor}: {{pickled_model: model.pkl}}\n")
    server.put("model.pkl", b"\x80\x04evil")
    with pytest.raises(ModelRefusedError, match=r"no ONNX flavour \(it has .*python_function") as caught:
        fetched(server)
    assert advice in caught.value.next_step
    assert "mlflow.onnx.log_model" in caught.value.next_step
    assert not any(path.endswith("model.pkl") for path, _ in server.seen)


@pytest.mark.parametrize("content", ["", "- a\n- b", "flavors: 7", "a: [", "\0", "flavors: &a [*a]"])
def test_an_mlmodel_that_is_none_is_refused(server, fetched, content):
    server.put("MLmodel", content)
    with pytest.raises(ModelRefusedError):
        fetched(server)


@pytest.mark.parametrize("data", ["../../model.onnx", "/etc/passwd", "a\\\\b", "7", "''"])
def test_a_model_file_outside_its_folder_is_refused(server, fetched, data):
    server.put("MLmodel", described(data))
    with pytest.raises(ModelRefusedError):
        fetched(server)


@pytest.mark.parametrize("name", ["../evil", "a/b", "..", "", None, 7, ".git", "a\nb"])
def test_a_listing_with_names_that_are_paths_is_refused(logged, fetched, name, tmp_path):
    entries = [{"path": "model.onnx", "is_dir": False}, {"path": name, "is_dir": False}]
    logged.answers[PROXY] = (200, {}, json.dumps({"files": entries}).encode())
    with pytest.raises(ModelRefusedError):
        fetched(logged)
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} <= {
        "MLmodel",
        "external.onnx",
        "external-weights.bin",
    }


@pytest.mark.parametrize(
    "uri",
    [
        "s3://bucket/x",
        "file:///srv/mlruns/1",
        "/srv/mlruns/1",
        "mlflow-artifacts://other:5000/1/x",
        "https://other/api/2.0/mlflow-artifacts/artifacts/1",
        "mlflow-artifacts:/../x",
        "",
    ],
)
def test_files_that_the_server_does_not_hand_out_itself_are_refused(logged, fetched, uri):
    logged.uri = uri
    with pytest.raises(ModelRefusedError):
        fetched(logged)


def test_an_address_of_the_servers_own_proxy_is_its_proxy(logged, fetched):
    logged.uri = f"{logged.url}{PROXY}/{logged.root}"
    assert fetched(logged).model.is_file()


def test_a_redirect_to_another_host_is_refused_and_one_to_the_same_is_followed(logged, fetched):
    path = f"{API}/registered-models/alias"
    logged.answers[path] = (302, {"Location": "http://localhost.evil.example:1/x"}, b"")
    with pytest.raises(RefusedError, match=r"redirects to localhost\.evil\.example") as caught:
        fetched(logged)
    assert caught.value.code == "redirected"
    logged.answers[path] = (302, {"Location": f"{API}/model-versions/get?name=fraud+model&version=3"}, b"")
    assert fetched(logged).name == "fraud model"


def test_a_redirect_to_itself_ends(logged, fetched):
    path = f"{API}/registered-models/alias"
    logged.answers[path] = (302, {"Location": path}, b"")
    with pytest.raises(RefusedError, match="redirects too often"):
        fetched(logged)


def test_a_token_goes_to_the_server_and_a_password_where_there_is_none(logged, fetched, monkeypatch, tmp_path):
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "ada")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "secret")
    fetched(logged)
    assert {headers.get("Authorization") for _, headers in logged.seen} == {"Basic YWRhOnNlY3JldA=="}
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "token")
    logged.seen.clear()
    (tmp_path / "second").mkdir()
    fetch(URI, tmp_path / "second", tracking=logged.url)
    assert {headers.get("Authorization") for _, headers in logged.seen} == {"Bearer token"}


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (401, UnauthenticatedError, "MLFLOW_TRACKING_TOKEN"),
        (403, UnauthenticatedError, "MLFLOW_TRACKING_TOKEN"),
        (404, NotFoundError, "answered 404: no such model"),
        (500, UnavailableError, "try again"),
        (418, InvalidInputError, "answered 418"),
    ],
)
def test_what_the_server_refuses_is_told_with_its_words(logged, fetched, status, kind, words):
    body = json.dumps({"error_code": "X", "message": "no such\n model"}).encode()
    logged.answers[f"{API}/registered-models/alias"] = (status, {}, body)
    with pytest.raises(kind) as caught:
        fetched(logged)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "body", [b"<html>", b"[]", b"null", b'{"model_version": 7}', b'{"model_version": {"version": "../3"}}']
)
def test_a_server_that_is_no_mlflow_is_told(logged, fetched, body):
    logged.answers[f"{API}/registered-models/alias"] = (200, {}, body)
    with pytest.raises(InvalidInputError):
        fetched(logged)


def test_an_answer_that_breaks_off_is_told_and_leaves_nothing_to_register(logged, fetched):
    logged.answers[f"{PROXY}/{logged.root}/model.onnx"] = (
        200,
        {"Content-Length": "1000000", "Connection": "close"},
        b"half",
    )
    with pytest.raises(UnreachableError, match="too early"):
        fetched(logged)


def test_an_mlmodel_without_end_is_not_read_to_it(logged, fetched):
    logged.put("MLmodel", b" " * ((1 << 20) + 1))
    with pytest.raises(InvalidInputError, match="has more than 1048576 bytes"):
        fetched(logged)


def test_a_model_without_end_is_not_read_to_it(logged, fetched, monkeypatch):
    monkeypatch.setattr("flyball.registry.imports.mlflow.PACKAGE_BYTES_MAX", 100)
    with pytest.raises(InvalidInputError, match="has more than"):
        fetched(logged)


@pytest.mark.parametrize(
    "uri", ["fraud", "models:/fraud", "models:/fraud/latest", "models:/a/b/3", "runs:/1/model", "models:/fraud/"]
)
def test_an_address_of_no_version_is_refused_before_anybody_is_asked(server, fetched, uri):
    with pytest.raises(UsageError, match="is not an MLflow model version"):
        fetched(server, uri)
    assert server.seen == []


@pytest.mark.parametrize("url", ["mlflow.example.com", "file:///srv", "https://", "https://ada:secret@mlflow.example.com"])
def test_an_address_of_no_server_is_refused(url, tmp_path):
    with pytest.raises(UsageError) as caught:
        fetch(URI, tmp_path, tracking=url)
    assert "secret" not in str(caught.value)


def test_a_server_that_does_not_run_is_told(tmp_path):
    with pytest.raises(UnreachableError, match="cannot be reached"):
        fetch(URI, tmp_path, tracking="http://127.0.0.1:9")


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("fraud", "fraud"),
        ("fraud model", "fraud-model"),
        ("../../etc/passwd", "etc-passwd"),
        ("Grüße 7", "Gr-e-7"),
        ("a" * 200, "a" * 128),
    ],
)
def test_a_name_becomes_one_that_the_registry_takes(name, plain):
    assert sanitised(name) == plain


@pytest.mark.parametrize("name", ["", "..", "日本", "---"])
def test_a_name_of_which_nothing_is_left_is_asked_for(name):
    with pytest.raises(FlyballError) as caught:
        sanitised(name)
    assert "--name" in caught.value.next_step


# The verb.


@pytest.fixture
def home(run, tmp_path):
    place = tmp_path / "registry"
    assert run("registry", "init", place)[0] == 0
    return place


def test_the_verb_registers_the_version_with_where_it_came_from(run, logged, home):
    code, out, errors = run("import", "mlflow", URI, "--tracking", logged.url, "--registry", home, "--tier", "high")
    assert (code, errors) == (0, "")
    assert out.startswith("fraud-model@1   sha256:")
    assert "flyball sign fraud-model@1" in out
    _, shown, _ = run("registry", "show", "fraud-model@1", "--registry", home, "--json")
    version = json.loads(shown)
    assert version["tier"] == "high"
    assert version["meta"]["lineage"]["code"] == "c0ffee"
    assert version["meta"]["lineage"]["parameters"]["mlflow"]["version"] == "3"
    assert version["meta"]["metrics"] == {"auc": 0.91}
    assert version["meta"]["lineage"]["source"] == f"models:/fraud model/3 at {logged.url}"
    _, history, _ = run("registry", "history", "fraud-model", "--registry", home)
    assert f"imported fraud-model@1 from models:/fraud model/3 at {logged.url}" in history
    assert {file["name"] for file in version["files"]} == {"meta.json", "model.onnx", "external-weights.bin"}


def test_the_verb_takes_a_name_and_speaks_json(run, logged, home):
    code, out, _ = run("import", "mlflow", URI, "--tracking", logged.url, "--registry", home, "--name", "fraud", "--json")
    assert code == 0
    assert [(one["name"], one["number"]) for one in json.loads(out)["imported"]] == [("fraud", 1)]


def test_a_refused_model_leaves_no_version(run, server, home):
    server.put("MLmodel", "flavors: {sklearn: {pickled_model: model.pkl}}")
    code, _, errors = run("import", "mlflow", URI, "--tracking", server.url, "--registry", home)
    assert code == 3
    assert "skl2onnx" in errors
    assert run("registry", "list", "--registry", home, "--json")[1].strip() in {"[]", '{\n  "names": []\n}'}


def test_a_registry_that_is_not_there_is_told_before_anything_is_fetched(run, logged, tmp_path):
    code, _, errors = run("import", "mlflow", URI, "--tracking", logged.url, "--registry", tmp_path / "nowhere")
    assert code == 3
    assert "flyball registry init" in errors
    assert logged.seen == []
