"""The latency contract of a decision is proven on a real server, which leaves nothing where callers would find it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.parts.redis import RedisServer
from flyball.errors import GateRefusedError
from flyball.registry.packages.meta import LatencyContract
from tests.support import decision_folders, external_servers
from tests.support.registry_people import ADA, Desk

ROW = {"card_id": "c-1", "amount": 12.5, "currency": "EUR", "country": "DE", "mcc": 1}
# What a machine keeps that has much else to do.
CONTRACT = LatencyContract(p99_ms=9000, rate_per_s=200, window_s=3.0, repeats=2, connections=4, error_budget=0.02)


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with external_servers.redis(tmp_path) as server:
        yield server


@pytest.mark.timeout(120)
def test_a_decision_with_a_model_of_the_registry_and_shared_windows_is_measured_as_a_whole(
    tmp_path: Path, redis: RedisServer
) -> None:
    desk, made = Desk(tmp_path), tmp_path / "decision"
    made.mkdir()
    scorer = desk.ready("scorer", model=decision_folders.fraud_model(made, "plain", decision_folders.PLAIN_COLUMNS))
    spec = decision_folders.PLAIN.replace("path: plain.onnx", f"path: {scorer}").replace(
        "features:\n",
        "record: {durability: buffered}\nsources:\n"
        f"  shared: {{redis: '{redis.url}', timeout: 50ms}}\nfeatures:\n"
        "  payments_1h: {window: {op: count, by: card_id, last: 1h, source: shared}}\n",
    )
    (made / "plain.yaml").write_text(spec)
    (made / "row.json").write_text(json.dumps(ROW))
    ref = desk.ready("plain", decision=made / "plain.yaml", samples=[made / "row.json"], contract=CONTRACT)
    gate = desk.registry.promote(ref, "dev", actor=ADA).event.body["evidence"][-1]
    assert gate["passed"], gate["words"]
    found = gate["evidence"]
    assert (found["measured"], found["decision"], found["rows"]) == ("decision", "plain", 1)
    assert found["windows_not_shared"] == ["payments_1h"]
    assert 0 < found["p50_ms"] <= found["p99_ms"]
    assert redis.ask("DBSIZE") == b":0\r\n"

    slow = CONTRACT.model_copy(update={"p99_ms": 0.001})
    other = desk.ready("plain", decision=made / "plain.yaml", samples=[made / "row.json"], contract=slow)
    with pytest.raises(GateRefusedError, match=r"limit 1\.00 µs"):
        desk.registry.promote(other, "dev", actor=ADA)
