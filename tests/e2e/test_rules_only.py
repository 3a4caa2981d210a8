"""A decision without a model through a server: recorded, replayed, and its windows filled from what was recorded."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from flyball import Client
from tests.support import command_line, external_servers, serving

SPEC = """
decision: limits
owner: risk@example.com
purpose: rules alone
input:
  card_id: {type: string, key: true, pii: true}
  amount: {type: float, min: 0}
  at: {type: time, required: false}
event_time: at
features:
  spent_1h: {window: sum(amount) by card_id last 1h}
policy:
  outcomes: [pass, review, reject]
  rules:
    - {when: "!has(spent_1h)", then: pass, reason: R0}
    - {when: spent_1h <= 100.0, then: pass}
    - {when: spent_1h > 1000.0, then: reject, reason: R1}
  reasons: {texts: {R0: the window is warming, R1: above the limit}}
record: {durability: sync}
"""
ROWS = 90


def flyball(*words: str | Path, code: int = 0) -> Any:
    ending = command_line.flyball(*words)
    assert ending.code == code, ending.text
    return ending


def serve(folder: Path, *options: str) -> list[str]:
    journal = ["--journal-folder", str(folder / "journal")]
    return [
        *serving.flyball(),
        "serve",
        "--decision",
        str(folder / "limits.yaml"),
        "--listen",
        "127.0.0.1:0",
        *journal,
        *options,
    ]


def kept(folder: Path) -> list[str]:
    """A server that keeps its windows in `features`."""
    (folder / "server.json").write_text(json.dumps({"features_folder": str(folder / "features")}))
    return serve(folder, "--config", str(folder / "server.json"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "limits.yaml").write_text(SPEC)
    return tmp_path


def past(now: int) -> list[dict[str, object]]:
    """Ten a minute for an hour and a half."""
    return [{"card_id": "c-1", "amount": 10.0, "at": now - 60 * minute} for minute in range(ROWS, 0, -1)]


def decided(server: serving.Server, row: dict[str, object]) -> Any:
    with Client(server.url) as client:
        return client.decide("limits", row)


def filled(folder: Path, source: list[str | Path], code: int = 0) -> Any:
    ending = flyball("features", "backfill", folder / "limits.yaml", *source, "--json", code=code)
    return json.loads("\n".join(ending.stdout)) if not code else ending


def test_what_rules_alone_decided_is_recorded_and_comes_out_the_same_again(folder: Path) -> None:
    now = int(time.time())
    with serving.serving(serve(folder)) as server:
        outcomes = [decided(server, row).outcome for row in past(now)]
        assert server.stop().code == 0
    assert set(outcomes) == {"pass", "review"}
    ending = flyball("decisions", "replay", "--journal-folder", folder / "journal", "--json")
    found = json.loads("\n".join(ending.stdout))
    assert found["classes"]["bit-exact"] == found["decisions"] == ROWS


def test_windows_are_warm_from_the_first_request_after_a_backfill_from_rows(folder: Path) -> None:
    now = int(time.time())
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, reversed(past(now)))))  # in any order
    source: list[str | Path] = ["--data", folder / "rows.jsonl", "--features-folder", folder / "features"]
    told = filled(folder, source)
    assert (told["windows"], told["events"], told["without_key"]) == (["spent_1h"], ROWS, 0)
    with serving.serving(kept(folder)) as server:
        assert decided(server, {"card_id": "c-1", "amount": 1.0, "at": now}).outcome == "review"
        assert decided(server, {"card_id": "c-2", "amount": 1.0, "at": now}).outcome == "pass"
        busy = filled(folder, source, code=3)
        assert "stop the server that uses the folder" in busy.text
        assert server.stop().code == 0


def test_a_second_run_over_the_same_period_counts_nothing_twice(folder: Path) -> None:
    now = int(time.time())
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, past(now))))
    source: list[str | Path] = ["--data", folder / "rows.jsonl", "--features-folder", folder / "features"]
    filled(folder, source)
    again = filled(folder, source, code=3)
    assert "an event must not be counted twice" in again.text
    assert "give only later events" in again.text
    with serving.serving(kept(folder)) as server:
        assert decided(server, {"card_id": "c-1", "amount": 1.0, "at": now}).outcome == "review"
        assert server.stop().code == 0


def test_windows_are_filled_from_a_journal_s_period(folder: Path) -> None:
    now = int(time.time())
    with serving.serving(serve(folder)) as server:
        for row in past(now):
            decided(server, row)
        assert server.stop().code == 0
    source: list[str | Path] = [
        "--journal-folder",
        folder / "journal",
        "--since",
        "1h",
        "--features-folder",
        folder / "features",
    ]
    told = filled(folder, source)
    assert (told["events"], told["left_out"]) == (ROWS, {})
    with serving.serving(kept(folder)) as server:
        assert decided(server, {"card_id": "c-1", "amount": 1.0, "at": now}).outcome == "review"
        assert server.stop().code == 0


def test_windows_in_redis_are_filled_while_servers_run(folder: Path) -> None:
    now = int(time.time())
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, past(now))))
    with external_servers.redis(folder) as redis:
        shared = "{window: {op: sum, of: amount, by: card_id, last: 1h, source: shared}}"
        text = SPEC.replace("{window: sum(amount) by card_id last 1h}", shared)
        (folder / "limits.yaml").write_text(f"{text}sources: {{shared: {{redis: {redis.url!r}, timeout: 1s}}}}\n")
        with serving.serving(serve(folder)) as server:
            assert filled(folder, ["--data", folder / "rows.jsonl"])["events"] == ROWS
            filled(folder, ["--data", folder / "rows.jsonl"], code=3)
            assert decided(server, {"card_id": "c-1", "amount": 1.0, "at": now}).outcome == "review"
            assert server.stop().code == 0
