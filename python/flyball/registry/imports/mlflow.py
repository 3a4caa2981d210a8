"""Fetches a model version and its run's lineage from an MLflow server over REST.

The server is untrusted: names never become paths, sizes are bounded, and only files from its artifact proxy are fetched.
Credentials come from MLflow's own environment variables.
"""

from __future__ import annotations

import base64
import math
import os
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from flyball.artifacts.packages import FILES_MAX, PACKAGE_BYTES_MAX, checked_name
from flyball.errors import ArtifactRefusedError, InvalidInputError, ModelRefusedError, NotFoundError, UsageError
from flyball.native.models import model_files
from flyball.registry.imports.found import Found
from flyball.registry.imports.mlmodel import MLMODEL_BYTES_MAX, differences, read_mlmodel
from flyball.registry.imports.origin import Origin

if TYPE_CHECKING:
    from pathlib import Path

    from flyball.registry.imports.mlmodel import MlModel

TRACKING = "MLFLOW_TRACKING_URI"
_URI = re.compile(r"models:/(?P<name>[^/@\x00-\x1f]{1,256})(?:/(?P<version>[0-9]{1,9})|@(?P<alias>[^/@\x00-\x1f]{1,256}))")
_API = "/api/2.0/mlflow"
_PROXY = "/api/2.0/mlflow-artifacts/artifacts"
_ENTRIES_MAX = 256
_VALUE_CHARACTERS_MAX = 500
_PATH_CHARACTERS_MAX = 1024
# Files that MLflow writes beside a model for Python; weights have other names.
_FOR_PYTHON = {
    "MLmodel", "conda.yaml", "python_env.yaml", "requirements.txt", "registered_model_meta", "input_example.json",
    "serving_input_example.json", "model_config.yaml",
}  # fmt: skip
_CODE = (".py", ".pkl", ".pickle", ".joblib", ".pt", ".pth", ".bin.index.json", ".so")


def fetch(uri: str, folder: Path, *, tracking: str | None = None) -> Found:
    """Fetch `models:/NAME/VERSION` or `models:/NAME@ALIAS` into an empty folder."""
    asked = _URI.fullmatch(uri)
    if asked is None:
        raise UsageError(
            f"{uri!r} is not an MLflow model version", next_step="write  models:/NAME/3  or  models:/NAME@champion"
        )
    server = _server(tracking)
    version = _version(server, asked)
    number, name = str(version.get("version")), str(version.get("name", asked["name"]))
    path = _artifacts(server, name, number)
    model, described = _fetch_files(server, path, folder)
    files = model_files(model)
    notes = [f"MLflow's signature: {line}" for line in differences(described, files.inputs, files.outputs)]
    run = _run(server, str(version.get("run_id") or described.run_id or ""))
    identity = {"name": name, "version": number, "run_id": described.run_id, "model_uuid": described.uuid}
    return Found(
        name=name,
        model=model,
        source=f"models:/{name}/{number} at {server.url}",
        data=run.get("data"),
        code=run.get("code"),
        parameters={
            "mlflow": {key: value for key, value in identity.items() if value},
            **({"columns": described.columns} if described.columns else {}),
            **({"parameters": run["params"]} if run.get("params") else {}),
        },
        metrics=run.get("metrics", {}),
        notes=tuple(notes),
    )


def _server(tracking: str | None) -> Origin:
    url = tracking or os.environ.get(TRACKING)
    if not url:
        raise UsageError(
            "no MLflow server is given", next_step=f"name it:  --tracking https://HOST:PORT   or set {TRACKING}"
        )
    token, user = os.environ.get("MLFLOW_TRACKING_TOKEN"), os.environ.get("MLFLOW_TRACKING_USERNAME")
    headers = {}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    elif user:
        password = os.environ.get("MLFLOW_TRACKING_PASSWORD", "")
        headers["Authorization"] = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
    sign_in = "set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
    return Origin(url, headers, ca=os.environ.get("MLFLOW_TRACKING_SERVER_CERT_PATH"), sign_in=sign_in)


def _version(server: Origin, asked: re.Match[str]) -> dict[str, Any]:
    if asked["alias"]:
        answer = server.ask(f"{_API}/registered-models/alias", name=asked["name"], alias=asked["alias"])
    else:
        answer = server.ask(f"{_API}/model-versions/get", name=asked["name"], version=asked["version"])
    found = answer.get("model_version")
    if not isinstance(found, dict) or not re.fullmatch(r"[0-9]{1,9}", str(found.get("version"))):
        raise InvalidInputError(f"{server.url} does not answer as an MLflow server does")
    return found


def _artifacts(server: Origin, name: str, number: str) -> str:
    """The path of the version's files below the server's artifact proxy."""
    answer = server.ask(f"{_API}/model-versions/get-download-uri", name=name, version=number)
    uri = str(answer.get("artifact_uri", ""))
    parts = urlsplit(uri)
    elsewhere = parts.netloc and parts.hostname != urlsplit(server.url).hostname
    if parts.scheme == "mlflow-artifacts" and not elsewhere:
        path = parts.path
    elif parts.scheme in {"http", "https"} and server.is_here(uri) and f"{_PROXY}/" in parts.path:
        path = parts.path.partition(f"{_PROXY}/")[2]
    else:
        raise ModelRefusedError(
            f"{name} version {number} is stored at {uri[:200]!r}, which the server does not serve itself",
            next_step="run  mlflow server  with --serve-artifacts, and log the model again",
        )
    return _checked(path.strip("/"))


def _fetch_files(server: Origin, path: str, folder: Path) -> tuple[Path, MlModel]:
    """Fetch the MLmodel, the ONNX file it names, and the files beside that, which may hold weights."""
    described_at = folder / "MLmodel"
    try:
        server.download(f"{_PROXY}/{path}/MLmodel", described_at, MLMODEL_BYTES_MAX)
    except NotFoundError as error:
        raise ModelRefusedError(
            f"there is no MLmodel file at {path}", next_step="register the folder that  mlflow.onnx.log_model  wrote"
        ) from error
    described = read_mlmodel(described_at.read_bytes())
    data = PurePosixPath(described.data)
    place = path if str(data.parent) == "." else f"{path}/{data.parent}"
    left = PACKAGE_BYTES_MAX
    for name in _beside(server, place, data.name):
        (folder / "model").mkdir(exist_ok=True)
        left -= server.download(f"{_PROXY}/{place}/{name}", folder / "model" / name, left)
    return folder / "model" / data.name, described


def _beside(server: Origin, place: str, model: str) -> list[str]:
    answer = server.ask(_PROXY, path=place)
    files = answer.get("files")
    entries = [one for one in files if isinstance(one, dict)] if isinstance(files, list) else []
    names = [_plain(one.get("path")) for one in entries if not one.get("is_dir")]
    wanted = [name for name in names if name not in _FOR_PYTHON and not name.endswith(_CODE)]
    if model not in names:
        raise ModelRefusedError(f"its MLmodel names {model}, which is not there", next_step="log the model again")
    if len(wanted) > FILES_MAX:
        raise ModelRefusedError(f"there are {len(wanted)} files beside the model, and {FILES_MAX} are the most")
    return wanted


def _plain(name: Any) -> str:
    """A plain file name, relative to the listed folder."""
    try:
        plain = checked_name(name)
    except ArtifactRefusedError:
        plain = ""
    if not plain or "/" in plain:
        raise ModelRefusedError(f"the server names a file {str(name)[:100]!r}, which is not a plain file name")
    return plain


def _checked(path: str) -> str:
    """Validate a path below the proxy; it never becomes a path on this machine."""
    plain = all(part not in {"", ".", ".."} and part.isprintable() and "\\" not in part for part in path.split("/"))
    if not plain or len(path) > _PATH_CHARACTERS_MAX:
        raise ModelRefusedError(f"the server names a path {path[:100]!r}, which is not plain")
    return path


def _run(server: Origin, run_id: str) -> dict[str, Any]:
    """Data, code, parameters and metrics of the training run; empty if the run is gone."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", run_id):
        return {}
    try:
        run = server.ask(f"{_API}/runs/get", run_id=run_id).get("run")
    except NotFoundError:
        return {}
    data = run.get("data") if isinstance(run, dict) else None
    if not isinstance(run, dict) or not isinstance(data, dict):
        return {}
    tags, inputs = _pairs(data.get("tags")), run.get("inputs")
    return {
        "metrics": {key: value for key, value in _pairs(data.get("metrics")).items() if _is_number(value)},
        "params": {key: str(value)[:_VALUE_CHARACTERS_MAX] for key, value in _pairs(data.get("params")).items()},
        "code": str(tags["mlflow.source.git.commit"])[:100] if "mlflow.source.git.commit" in tags else None,
        "data": _datasets(inputs.get("dataset_inputs") if isinstance(inputs, dict) else None),
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _pairs(entries: Any) -> dict[str, Any]:
    found = entries if isinstance(entries, list) else []
    pairs = [one for one in found if isinstance(one, dict) and isinstance(one.get("key"), str)]
    return {one["key"][:250]: one.get("value") for one in pairs[:_ENTRIES_MAX]}


def _datasets(entries: Any) -> str | None:
    found = []
    for one in entries if isinstance(entries, list) else []:
        dataset = one.get("dataset") if isinstance(one, dict) else None
        if isinstance(dataset, dict) and dataset.get("digest"):
            found.append(f"{str(dataset.get('name', 'dataset'))[:100]} {str(dataset['digest'])[:100]}")
    return ", ".join(found[:16]) or None
