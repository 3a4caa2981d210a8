"""What users read when something is wrong, word for word: the commands' messages and the HTTP API's.

`tests/golden/messages` holds them, so that a change of wording shows in review. After an intended change, write them:
FLYBALL_GOLDEN=write pytest tests/contract/test_messages.py
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import command_line, decision_folders, serving
from tests.support.serving import Server
from tests.support.wire import Http

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "messages"
NOBODY = "http://127.0.0.1:1"
BAD_SPEC = """\
decision: Bad Name
purpose: show many faults at once
input:
  amount: {type: float, min: 10, max: 1}
  country: {type: categori}
model: {path: nowhere.onnx, score: "y[0]"}
policy:
  bands: {pass: "< 0.5", reject: ">= 0.4"}
  rules:
    - {when: amout > 3.0, then: refuse}
"""
COMMANDS = [
    "frobnicate",
    "serve",
    "serve nowhere.onnx",
    "serve plain.yaml",
    "serve fraud.onnx --listen nowhere",
    "serve fraud.onnx --lanes 0",
    "serve fraud.onnx --config nowhere.json",
    "serve --decision nowhere.yaml",
    "inspect nowhere.onnx",
    "inspect plain.yaml",
    f"predict fraud --url {NOBODY} < [[1, 2]]",
    f"predict fraud --url {NOBODY} < ",
    "predict fraud --url nonsense",
    "snapshot nowhere.onnx --out snapshot",
    "check nowhere.yaml",
    "check bad.yaml",
    "plan bad.yaml",
    "decide plain.yaml < {",
    "decide plain.yaml < {}",
    'decide plain.yaml < {"amount": -3, "contry": "DE"}',
    f"decide plain --url {NOBODY} < {{}}",
    "score plain.yaml --data nowhere.csv --out scored.csv",
    "fit plain.yaml --data nowhere.csv",
    "convert nowhere.pkl --out converted",
    "optimize nowhere.onnx --data nowhere.csv",
    "explain-latency nowhere.onnx",
    "bench --scenario nowhere.yaml",
    "caller add ada --may fly:fraud",
    "features get nowhere.store c-1",
    "decisions show --journal-folder nowhere 018f4e4e-0000-7000-8000-000000000000",
    "decisions verify nowhere",
    "decisions query --journal-folder nowhere",
    "register Bad_Name fraud.onnx",
    "sign fraud",
    "approve fraud",
    "promote fraud --environment production",
    "rollback fraud",
    "status",
    "registry history",
    "trust show",
    "key show nowhere.pem",
    "import triton nowhere",
    "import mlflow nonsense",
]
ROW = {"card_id": "c-1", "amount": 12.5, "currency": "EUR", "country": "FR"}
REQUESTS: list[tuple[str, str, object]] = [
    ("POST", "/v1/decisions/plain", ""),
    ("POST", "/v1/decisions/plain", "{"),
    ("POST", "/v1/decisions/plain", []),
    ("POST", "/v1/decisions/plain", {}),
    ("POST", "/v1/decisions/plain", {"input": {}}),
    ("POST", "/v1/decisions/plain", {"input": ROW, "explan": True}),
    ("POST", "/v1/decisions/plain", {"input": {**ROW, "amount": -3.0, "currency": "EURO", "contry": "DE"}}),
    ("POST", "/v1/decisions/plain", {"input": {**ROW, "amount": "much"}}),
    ("POST", "/v1/decisions/plain", {"card_id": "c-1", "amount": 12.5}),
    ("POST", "/v1/decisions/plain", {"rows": []}),
    ("POST", "/v1/decisions/frod", {"input": ROW}),
    ("GET", "/v1/decisions/frod", None),
    ("DELETE", "/v1/decisions/plain", None),
    ("POST", "/v1/decisions/plain/outcomes", {"id": "nonsense"}),
    ("POST", "/v1/decisions/plain/overrides", {"id": "018f4e4e-0000-7000-8000-000000000000", "outcome": "refuse"}),
    ("POST", "/v1/erasures", {"subject": "c-1"}),
    ("GET", "/v1/nothing", None),
    ("GET", "/nothing", None),
    ("POST", "/v2/models/plain/infer", {"inputs": []}),
    ("POST", "/v2/repository/models/fraud/load", {}),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("messages")
    decision_folders.plain(path)
    (path / "bad.yaml").write_text(BAD_SPEC)
    return path


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    command = [*serving.flyball(), "serve", "--decision", str(folder / "plain.yaml"), "--listen", "127.0.0.1:0"]
    with serving.serving(command) as started:
        yield started


def test_messages_of_the_commands(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("flyball.cli.starting_server.WAIT_S", 0)
    for name in [name for name in os.environ if name.startswith("FLYBALL_")]:
        if name != "FLYBALL_GOLDEN":
            monkeypatch.delenv(name)
    compare(
        "commands.txt", [_command(words, folder) for words in COMMANDS], [(str(folder), "FOLDER"), ("python -m pytest.", "")]
    )


def test_messages_of_the_http_api(server: Server) -> None:
    with Http(server) as connection:
        compare("http.txt", [_request(connection, *asked) for asked in REQUESTS], [(server.address, "ADDRESS")])


def _command(words: str, folder: Path) -> str:
    arguments, _, stdin = words.partition(" < ")
    ending = command_line.flyball(*arguments.split(), stdin=stdin, cwd=folder)
    assert ending.code, f"flyball {words} was expected to fail: {ending.text}"
    return f"$ flyball {words}\n{_stripped(ending.text)}\n[exit code {ending.code}]\n"


def _request(connection: Http, method: str, path: str, content: object) -> str:
    body = content if isinstance(content, str) else "" if content is None else json.dumps(content)
    reply = connection.request(method, path, body.encode(), {"Content-Type": "application/json"} if body else {})
    assert reply.status >= 400, f"{method} {path} was expected to fail: {reply.body!r}"
    try:
        shown = json.dumps(json.loads(reply.body), indent=2, ensure_ascii=False)
    except ValueError:
        shown = reply.body.decode()
    return f"{method} {path}  {body}\n{reply.status}\n{_stripped(shown)}\n"


def _stripped(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")


def compare(name: str, cases: list[str], hidden: list[tuple[str, str]]) -> None:
    """Against the golden file; differences are shown case by case."""
    text = "\n".join(cases)
    for real, shown in hidden:
        text = text.replace(real, shown)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", "ID", text)
    if os.environ.get("FLYBALL_GOLDEN") == "write":
        (GOLDEN / name).write_text(text)
    assert text.split("\n\n") == (GOLDEN / name).read_text().split("\n\n")
