"""The latency gate: what it serves, what it asks, and what it says of that. Servers and measurements are of paper here."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from flyball.bench.scenario import Contract
from flyball.control import latency
from flyball.errors import GateRefusedError, InvalidInputError
from flyball.registry.acts.registry import GateInput
from flyball.registry.packages.meta import LatencyContract
from flyball.registry.views import ReceiptView
from tests.support import bench_records, decision_folders
from tests.support.registry_people import ADA, Desk

CONTRACT = LatencyContract(p99_ms=5, rate_per_s=100)
ROW = {"card_id": "c-1", "amount": 12.5, "currency": "EUR", "country": "DE"}


class Paper:
    """Stands for the server, its client and `flyball bench gate`; remembers what they were told."""

    exit_code = 0
    remedy: str | None = None
    url = "http://127.0.0.1:1"

    def __init__(self) -> None:
        self.serve: list[str] = []
        self.decision = ""
        self.contract: dict[str, Any] = {}
        self.rows: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []

    def process(self, command: list[str]) -> "Paper":
        self.serve = command
        if "--decision" in command:
            self.decision = Path(command[command.index("--decision") + 1]).read_text()
        return self

    def client(self, url: str) -> "Paper":
        return self

    def __enter__(self) -> "Paper":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def decide(self, name: str, row: dict[str, Any]) -> SimpleNamespace:
        if "amount" not in row:
            raise InvalidInputError("1 field is not as it should be")
        self.asked.append(row)
        return SimpleNamespace(remedy=SimpleNamespace(cause=self.remedy) if self.remedy else None)

    def run(self, command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        assert command[3:5] == ["bench", "gate"]
        file = Path(command[5])
        self.contract = json.loads(file.read_text())
        if "payloads" in self.contract:
            lines = (file.parent / self.contract["payloads"]["file"]).read_text()
            self.rows = [json.loads(line) for line in lines.splitlines()]
        windows = [bench_records.window(phase="gate")]
        bench_records.record(windows).write(Path(command[command.index("--out") + 1], "record.json"))
        told = '{"error": "p99 is 9 ms, above 5 ms"}'
        return subprocess.CompletedProcess(command, self.exit_code, "", "" if self.exit_code == 0 else told)


@pytest.fixture
def paper(monkeypatch: pytest.MonkeyPatch) -> Paper:
    made = Paper()
    monkeypatch.setattr("flyball.bench.process.Process", made.process)
    monkeypatch.setattr("flyball.client.Client", made.client)
    monkeypatch.setattr(latency.subprocess, "run", made.run)
    return made


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.registry.close()


@pytest.fixture
def sample(tmp_path: Path) -> Callable[[Any], Path]:
    def write(document: Any, name: str = "sample") -> Path:
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(document))
        return path

    return write


def promoted(desk: Desk, ref: str) -> ReceiptView:
    return desk.registry.promote(ref, "dev", actor=ADA)


def evidence(receipt: ReceiptView) -> dict[str, Any]:
    gate: dict[str, Any] = receipt.event.body["evidence"][-1]
    assert gate["gate"] == "latency"
    return gate


def test_a_plain_model_is_proven_by_the_bench_gate_and_its_record_is_kept(desk: Desk, paper: Paper) -> None:
    found = evidence(promoted(desk, desk.ready(contract=CONTRACT)))
    assert found["passed"]
    assert (found["evidence"]["measured"], found["evidence"]["rows"]) == ("model", "generated from the model's signature")
    assert found["words"].startswith("the model, asked with rows generated from the model's signature: p99 ")
    assert found["evidence"]["p99_ms"] > found["evidence"]["p50_ms"] > 0
    assert found["evidence"]["hardware"]["cpu"]
    assert json.loads(desk.registry.handle.store.read(found["evidence"]["record"]))["format"] == "flyball-bench/1"


def test_the_longest_name_that_a_registry_takes_is_proven_too(desk: Desk, paper: Paper) -> None:
    name = "_" + "m" * 127
    assert evidence(promoted(desk, desk.ready(name, contract=CONTRACT)))["passed"]
    assert Contract.model_validate(paper.contract).model == name


def test_a_broken_contract_is_not_promoted_and_breaking_the_glass_keeps_what_was_found(desk: Desk, paper: Paper) -> None:
    paper.exit_code = 4
    ref = desk.ready(contract=CONTRACT)
    with pytest.raises(GateRefusedError, match="p99 is 9 ms"):
        promoted(desk, ref)
    found = evidence(desk.registry.promote(ref, "dev", actor=ADA, break_glass=True, reason="an outage"))
    assert not found["passed"]
    assert found["evidence"]["record"].startswith("sha256:")


class TestADecision:
    SAMPLES: ClassVar = [ROW, {"input": ROW}, [ROW, ROW], {"rows": [{"id": "a", "input": ROW}]}]

    def ready(self, desk: Desk, spec: str = decision_folders.PLAIN, **said: Any) -> str:
        folder = desk.folder / "decision"
        folder.mkdir()
        return desk.ready("plain", decision=decision_folders.plain(folder, spec), contract=CONTRACT, **said)

    def test_is_asked_itself_with_every_row_of_its_samples(
        self, desk: Desk, paper: Paper, sample: Callable[..., Path]
    ) -> None:
        samples = [sample(one, f"s{place}") for place, one in enumerate(self.SAMPLES)]
        found = evidence(promoted(desk, self.ready(desk, samples=samples)))
        assert paper.asked == paper.rows == [ROW] * 5
        assert paper.contract["protocol"] == "decision"
        assert (found["evidence"]["measured"], found["evidence"]["rows"]) == ("decision", 5)
        assert found["words"].startswith("the decision, asked with 5 sample rows: p99 ")

    def test_is_served_from_its_package_with_a_journal_of_its_own(
        self, desk: Desk, paper: Paper, sample: Callable[..., Path]
    ) -> None:
        promoted(desk, self.ready(desk, samples=[sample(ROW)]))
        package = str(desk.registry.resolve("plain@1").folder)
        assert f"{package}/plain.onnx" in paper.decision
        assert "--journal-folder" in paper.serve

    def test_without_samples_is_not_proven_and_the_gate_says_how_to_add_them(self, desk: Desk, paper: Paper) -> None:
        folder = desk.folder / "decision"
        folder.mkdir()
        ref = desk.ready(
            "plain", decision=decision_folders.plain(folder)
        )  # with a contract it would not have been registered
        _, version = desk.registry.handle.find(ref)
        gate = latency.latency(
            GateInput(desk.registry.handle, "plain", version, "dev"), desk.registry.resolve(ref), CONTRACT
        )
        assert not gate.passed
        assert re.search(r"(?s)no samples.*--sample ROW\.json", gate.words)
        assert paper.contract == {}

    def test_that_cannot_take_a_sample_says_which_before_anything_is_measured(
        self, desk: Desk, paper: Paper, sample: Callable[..., Path]
    ) -> None:
        ref = self.ready(desk, samples=[sample([ROW, {"card_id": "c-1"}])])
        with pytest.raises(GateRefusedError, match="sample 2 cannot be decided"):
            promoted(desk, ref)
        assert paper.contract == {}

    def test_that_a_remedy_answered_for_is_told_in_the_evidence(
        self, desk: Desk, paper: Paper, sample: Callable[..., Path]
    ) -> None:
        paper.remedy = "feature_error"
        found = evidence(promoted(desk, self.ready(desk, samples=[sample(ROW)])))
        assert found["evidence"]["remedies"] == {"feature_error": 1}
        assert "1 of them answered by a remedy: feature_error" in found["words"]
