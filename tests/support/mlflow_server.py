"""A small real server that answers as MLflow does: its REST interface and its artifact proxy, over a dictionary of files.

`answers` holds what to say to a path instead: a status, headers and a body.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

API = "/api/2.0/mlflow"
PROXY = "/api/2.0/mlflow-artifacts/artifacts"
RUN = "0f3c8c7a1d0e4b7e9a5d2c1b0a998877"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: MlflowServer

    def do_GET(self):
        parts = urlsplit(self.path)
        self.server.seen.append((self.path, dict(self.headers)))
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        if parts.path in self.server.answers:
            self.answer(*self.server.answers[parts.path])
        elif parts.path == PROXY:
            self.answer_json(200, {"files": self.server.listed(query.get("path", ""))})
        elif parts.path.startswith(f"{PROXY}/"):
            content = self.server.files.get(unquote(parts.path.removeprefix(f"{PROXY}/")))
            self.answer(*((404, {}, b"{}") if content is None else (200, {}, content)))
        else:
            self.answer_json(*self.server.registry(parts.path.removeprefix(API), query))

    def answer_json(self, status, document):
        self.answer(status, {"Content-Type": "application/json"}, json.dumps(document).encode())

    def answer(self, status, headers, body):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class MlflowServer(ThreadingHTTPServer):
    """One registered model, `fraud model`, with version 3, which the alias `champion` names."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.root = "1/models/m-1b2c/artifacts"
        self.files: dict[str, bytes] = {}
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.uri = f"mlflow-artifacts:/{self.root}"
        self.name = "fraud model"
        self.run: dict[str, Any] = {
            "info": {"run_id": RUN},
            "data": {
                "metrics": [{"key": "auc", "value": 0.91, "step": 0}, {"key": "loss", "value": "NaN"}],
                "params": [{"key": "trees", "value": "200"}],
                "tags": [{"key": "mlflow.source.git.commit", "value": "c0ffee"}],
            },
            "inputs": {"dataset_inputs": [{"dataset": {"name": "payments", "digest": "ab12cd34"}}]},
        }
        self.url = f"http://127.0.0.1:{self.server_port}"
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})

    def put(self, name, content):
        self.files[f"{self.root}/{name}"] = content if isinstance(content, bytes) else content.encode()

    def listed(self, path):
        below = [name.removeprefix(f"{path}/") for name in self.files if name.startswith(f"{path}/")]
        plain = [{"path": name, "is_dir": False, "file_size": len(self.files[f"{path}/{name}"])} for name in below]
        folders = {name.split("/")[0] for name in below if "/" in name}
        return [one for one in plain if "/" not in one["path"]] + [{"path": name, "is_dir": True} for name in folders]

    def registry(self, path, query):
        version = {"name": self.name, "version": "3", "source": "models:/m-1b2c", "run_id": RUN, "status": "READY"}
        gone = {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "Registered Model with name=x not found"}
        asked = (path, query.get("name"), query.get("version"), query.get("alias"))
        if asked in {
            ("/registered-models/alias", self.name, None, "champion"),
            ("/model-versions/get", self.name, "3", None),
        }:
            return 200, {"model_version": version}
        if asked == ("/model-versions/get-download-uri", self.name, "3", None):
            return 200, {"artifact_uri": self.uri}
        if (path, query.get("run_id")) == ("/runs/get", RUN):
            return 200, {"run": self.run}
        return 404, gone

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self._thread.join()
        self.server_close()
