"""What new users type wrong in their first hour, and what they read then, word for word.

Each message names the cause and the next step, in at most three lines and without a traceback. All of them are in
`tests/golden/messages/first_hour.txt`. After an intended change, write it:
FLYBALL_GOLDEN=write pytest tests/contract/test_first_hour.py
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import flyball
from flyball.cli.signals import Signals
from tests.support import command_line, first_hour_folder, serving
from tests.support.serving import Server

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "messages" / "first_hour.txt"
LINES_MAX = 3
# A fitted model's last digits are those of its machine.
VARIES = ((r"\b0\.\d{6,}", "NUMBER"), (r"[\d,]+ of [\d,]+ rows are off", "N of N rows are off"))
NOBODY = "--url http://127.0.0.1:1"
UNKNOWN = "0192f6c1-0000-7000-8000-000000000000"

COMMANDS = [
    # Files.
    "serve nowhere.onnx",
    "serve models",
    "serve cut.onnx",
    "serve notes.onnx",
    "serve plain.yaml",
    "serve plain.onnx --decision nowhere.yaml",
    "inspect models",
    "inspect notes.txt",
    # Flags.
    "serve fraud.onnx --port 8080",
    "serve fraud.onnx --listen 8080",
    "serve fraud.onnx --listen TAKEN",
    "serve fraud.onnx --listen 0.0.0.0:8080",
    "serve fraud.onnx --journal-folder ./j",
    "serve fraud.onnx --name fraud",
    "serve fraud.onnx --workers 4",
    "serve fraud.onnx --lanes two",
    "serve fraud.onnx --tls-cert cert.pem",
    "serve fraud.onnx --log-format xml",
    "serve 'my model=fraud.onnx'",
    "serve Fraud/v1=fraud.onnx",
    "serve fraud.onnx models/fraud.onnx",
    "serve",
    "run fraud.onnx",
    "serv fraud.onnx",
    # Decisions.
    "check nowhere.yaml",
    "check cut.yaml",
    "check overlap.yaml",
    "check gap.yaml",
    "check rule.yaml",
    "check rule.yaml --json",
    "check key.yaml",
    "check name.yaml",
    "check modelless.yaml",
    "check fraud.onnx",
    "serve --decision unfitted.yaml",
    "plan models",
    "fit plain.yaml --data wrong.csv",
    "score plain.yaml --data wrong.csv --out scored.csv",
    "score plain.yaml --data rows.csv --out scored.xlsx",
    # Requests.
    f"predict fraud {NOBODY} < [[1, 2, 3, 4]]",
    "predict frod --url URL < [[1, 2, 3, 4]]",
    "predict fraud --url URL < [[1, 2, 3]]",
    "predict fraud --url URL < {'input': [[1]]}",
    "predict fraud nowhere.json --url URL",
    "predict fraud --url localhost:8080 < [[1, 2, 3, 4]]",
    "decide frod row.json --url URL",
    "decide plain.yaml cut.json",
    f"decide plain row.json {NOBODY}",
    'decide plain --url URL < {"card_id": "c-1", "amount": "much", "currency": "EUR", "country": "DE"}',
    'decide plain --url URL < {"input": {"card_id": "c-1"}}',
    # The decision log.
    f"decisions show {UNKNOWN} --journal-folder journal",
    "decisions show 01a8 --journal-folder journal",
    "decisions show 123456 --journal-folder journal",
    "decisions show nonsense --journal-folder journal",
    f"decisions show {UNKNOWN} --journal-folder .flyball/journal",
    "decisions replay --journal-folder nowhere",
    "decisions query --journal-folder journal --since yesterday",
    "decisions query --journal-folder journal 'select nothing from decisions'",
    # Conversion.
    "convert risk.pkl --data payments.csv --target fraud --out risk",
    "convert risk.pkl --data payments.csv --target froud --out risk --trust-pickle",
    "convert risk.pkl --data rows.csv --out risk --trust-pickle",
    "convert risk.pkl --data payments.csv --target fraud --out risk --trust-pickle --bound 0",
    "convert notes.txt --data payments.csv --out risk",
    # Callers, keys and the registry.
    "caller add ada --may fly:fraud",
    "caller add 'ada lovelace'",
    "caller may bob infer",
    "serve fraud.onnx --callers nowhere.json",
    "key show nowhere.pem",
    "key new ada.pem",
    "trust add ada.pub --name ada --role author --registry registry",
    "trust init --expires tomorrow",
    "register fraud fraud.onnx",
    "register 'my model' fraud.onnx --registry registry",
    "sign fraud@1 --key nowhere.pem --registry registry",
    "sign fraud@1 --key ada.pem --expires soon --registry registry",
    "approve fraud@1 --key ada.pem --registry registry",
    "approve fraud --key grace.pem --registry registry",
    "promote fraud@2 --environment dev --registry registry",
    "promote fraud@1 --environment prod --registry registry",
    "promote fraud@champion --environment dev --registry registry",
    "promote frod@1 --environment dev --registry registry",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return first_hour_folder.make(tmp_path_factory.mktemp("first_hour"))


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    models = [str(folder / "fraud.onnx"), str(folder / "credit.onnx")]
    command = [*serving.flyball(), "serve", *models, "--decision", str(folder / "plain.yaml"), "--listen", "127.0.0.1:0"]
    with serving.serving(command) as started:
        yield started


ROW = {"card_id": "c-1", "amount": 12.5, "currency": "EUR", "country": "DE"}
# Each with what a person typed, for the golden file.
CALLS: list[tuple[str, Callable[[flyball.Client], object]]] = [
    ('Client("localhost:8080")', lambda _: flyball.Client("localhost:8080")),
    ('Client(NOBODY).infer("fraud", [[1, 2, 3, 4]])', lambda _: flyball.Client(NOBODY[6:]).infer("fraud", [[1, 2, 3, 4]])),
    ('client.infer("frod", [[1, 2, 3, 4]])', lambda client: client.infer("frod", [[1, 2, 3, 4]])),
    ('client.infer("fraud", [[1, 2, 3]])', lambda client: client.infer("fraud", [[1, 2, 3]])),
    ('client.infer("fraud", [["a", "b", "c", "d"]])', lambda client: client.infer("fraud", [["a", "b", "c", "d"]])),
    ('client.infer("fraud", {"input": [[1, 2, 3, 4]]})', lambda client: client.infer("fraud", {"input": [[1, 2, 3, 4]]})),
    ('client.infer("fraud", "rows.csv")', lambda client: client.infer("fraud", "rows.csv")),
    ('client.infer("fraud", [[1, 2, 3, 4], [1, 2]])', lambda client: client.infer("fraud", [[1, 2, 3, 4], [1, 2]])),
    (
        'client.infer("fraud", pd.DataFrame(columns=["a", "b"], …))',
        lambda client: client.infer("fraud", pd.DataFrame({"a": [1.0], "b": [2.0]})),
    ),
    ('client.infer("fraud", np.zeros((1, 4), complex))', lambda client: client.infer("fraud", np.zeros((1, 4), complex))),
    ('client.decide("frod", row)', lambda client: client.decide("frod", ROW)),
    (
        'client.decide("plain", {"card_id": "c-1", "amount": 1.0})',
        lambda client: client.decide("plain", {"card_id": "c-1", "amount": 1.0}),
    ),
    ('client.decide("plain", {**row, "ammount": 3})', lambda client: client.decide("plain", {**ROW, "ammount": 3})),
    ('client.decide("plain", {"input": row})', lambda client: client.decide("plain", {"input": ROW})),
    ('client.decide("plain", "c-1")', lambda client: client.decide("plain", "c-1")),
    (
        'client.decide("plain", pd.DataFrame(columns=["card_id", "amount", "currency", "land"], …))',
        lambda client: client.decide("plain", pd.DataFrame([{**ROW, "land": "DE"}]).drop(columns="country")),
    ),
    ("with AsyncClient(url) as client: …", lambda client: _used_with(flyball.AsyncClient(client.url))),
    ('Decision.load("nowhere.yaml")', lambda _: flyball.Decision.load("nowhere.yaml")),
    ('Decision.load("plain.yaml").decide({"amount": "much"})', lambda _: _decided_here({**ROW, "amount": "much"})),
]


def test_mistakes_of_the_first_hour(folder: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("flyball.cli.starting_server.WAIT_S", 0)
    monkeypatch.chdir(folder)
    for name in [name for name in os.environ if name.startswith("FLYBALL_") and name != "FLYBALL_GOLDEN"]:
        monkeypatch.delenv(name)
    assert len(COMMANDS) >= 60
    found = [_mistake(words, server) for words in COMMANDS]
    with flyball.Client(server.url) as client:
        found += [_call(typed, call, client) for typed, call in CALLS]
    text = "\n".join(found).replace(str(folder), "FOLDER").replace(server.address, "ADDRESS")
    for pattern, shown in VARIES:
        text = re.sub(pattern, shown, text)
    if os.environ.get("FLYBALL_GOLDEN") == "write":
        GOLDEN.write_text(text)
    assert text.split("\n\n") == GOLDEN.read_text().split("\n\n")


def _mistake(words: str, server: Server) -> str:
    typed, _, stdin = words.replace("URL", server.url).replace("TAKEN", server.address).partition(" < ")
    ending = command_line.flyball(*shlex.split(typed), stdin=stdin)
    assert ending.code in command_line.documented_exit_codes(), f"flyball {words} ended with {ending.code}"
    assert ending.code, f"flyball {words} was expected to fail: {ending.text}"
    lines = [line.rstrip() for line in ending.text.splitlines()]
    assert "--json" in words or len(lines) <= LINES_MAX, f"flyball {words}: {ending.text}"
    assert "Traceback" not in ending.text
    assert "\\u000a" not in ending.text, "a message has line ends inside"
    text = "\n".join(lines)
    return f"$ flyball {words}\n{text}\n[exit code {ending.code}]\n"


def _call(typed: str, call: Callable[[flyball.Client], object], client: flyball.Client) -> str:
    with pytest.raises(flyball.FlyballError) as caught:
        call(client)
    text = str(caught.value)
    assert len(text.splitlines()) <= LINES_MAX, text
    return f">>> {typed}\n{type(caught.value).__name__}: {text}\n"


def _used_with(client: flyball.AsyncClient) -> None:
    with client:
        pass


def _decided_here(row: dict[str, Any]) -> object:
    with flyball.Decision.load("plain.yaml") as decision:
        return decision.decide(row)


def test_a_verb_in_this_process_leaves_its_signals_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    def serves() -> None:
        Signals(signal.SIGTERM)
        sys.exit(0)

    before = signal.pthread_sigmask(signal.SIG_BLOCK, ()), signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(command_line.app, "main", serves)
    assert command_line.flyball("serve").code == 0
    assert (signal.pthread_sigmask(signal.SIG_BLOCK, ()), signal.getsignal(signal.SIGTERM)) == before
