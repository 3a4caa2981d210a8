"""Each fault that a decision can meet is made to happen: the declared remedy answers, says so, and is counted.

The faults: artifact invalid, runtime fails to start, feature source down, slow, stale or refusing, malformed payload,
timeout, queue full, telemetry backend down, output outside its guard.
"""

import fcntl
import itertools
import json
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.parts.redis import RedisServer
from tests.support import decision_documents, external_servers, onnx_models, serving, snapshots
from tests.support.decision_documents import Json, ask, decided, deployment, document, problem, with_previous
from tests.support.serving import READY, Server, until
from tests.support.wire import Raw, metrics, raws, settled

Begin = Callable[..., Server]


@pytest.fixture
def begin(start: Callable[..., Server], tmp_path: Path) -> Begin:
    """flyballd on one lane with these deployments."""

    def begun(*documents: Json) -> Server:
        index = snapshots.write(tmp_path, 1, list(documents))
        config = tmp_path / "config.json"
        config.write_text(json.dumps({"lanes": 1}))
        return start(*serving.flyballd(), "--snapshot", index, "--listen", "127.0.0.1:0", "--config", config)

    return begun


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with external_servers.redis(tmp_path) as server:
        yield server


def remedied(server: Server, decision: str = "pay") -> dict[tuple[str, str], int]:
    """Decisions by cause and remedy, those without one left out."""
    settled(server)
    reading = metrics(server)
    return {
        (cause, remedy): int(count)
        for cause in reading.labels("flyball_decisions_remedied_total", "cause")
        for remedy in reading.labels("flyball_decisions_remedied_total", "remedy")
        if (count := reading.sum("flyball_decisions_remedied_total", decision=decision, cause=cause, remedy=remedy))
    }


def remedy_of(answer: Json) -> tuple[str, str]:
    return answer["remedy"]["cause"], answer["remedy"]["used"]


# Artifact invalid, runtime fails to start.


def test_a_changed_artifact_is_refused_at_load_and_the_version_before_it_goes_on_deciding(
    begin: Begin, tmp_path: Path
) -> None:
    good = decision_documents.thousandth(tmp_path)
    server = begin(deployment(document(), {"1": good}))
    before = decided(ask(server, 100))
    other = deployment(
        document(policy={**decision_documents.POLICY, "rules": []}), {"1": good}, artifact_digest="sha256:" + "0" * 64
    )
    snapshots.write(tmp_path, 2, [other])
    server.signal(signal.SIGHUP)
    server.log_line(lambda fields: "refused" in str(fields).lower() and "pay" in str(fields))
    after = decided(ask(server, 100))
    assert (after["policy"], after["models"], after["outcome"]) == (before["policy"], before["models"], "pass")


def test_a_decision_whose_artifact_is_invalid_from_the_start_says_why_it_is_not_served(begin: Begin, tmp_path: Path) -> None:
    good = decision_documents.thousandth(tmp_path)
    broken = deployment(document(), {"1": good}, name="broken", artifact_digest="sha256:" + "0" * 64)
    server = begin(deployment(document(), {"1": good}), broken)
    told = problem(ask(server, 100, name="broken"), 503)
    assert told["type"] == "urn:flyball:fault:model_not_ready"
    assert "the file changed since" in told["detail"]
    assert decided(ask(server, 100))["outcome"] == "pass"


def test_a_model_that_the_runtime_cannot_start_is_refused_and_the_last_good_state_goes_on(
    begin: Begin, tmp_path: Path, model: Callable[[str], Path]
) -> None:
    server = begin(deployment(document(), {"1": decision_documents.thousandth(tmp_path)}))
    snapshots.write(tmp_path, 2, [deployment(document(), {"1": model("unknown_op")})])
    server.signal(signal.SIGHUP)
    server.log_line(lambda fields: "refused" in str(fields).lower() and "NoSuchOp" in str(fields))
    assert decided(ask(server, 100))["remedy"] is None


def test_without_the_runtime_s_library_the_server_ends_and_says_what_is_missing(tmp_path: Path) -> None:
    index = snapshots.write(tmp_path, 1, [deployment(document(), {"1": decision_documents.thousandth(tmp_path)})])
    library = tmp_path / "libonnxruntime.so"
    library.write_bytes(b"no library")
    ended = subprocess.run(
        [*serving.flyballd(), "--snapshot", str(index), "--listen", "127.0.0.1:0"],
        env={**os.environ, "ORT_DYLIB_PATH": str(library)}, capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    assert ended.returncode != 0
    assert str(library) in ended.stdout + ended.stderr


def test_a_run_that_fails_is_answered_by_the_previous_version(begin: Begin, tmp_path: Path) -> None:
    """The champion looks the amount up in a table of eight and breaks on any other; the previous one takes all."""
    policy = {**decision_documents.POLICY, "guards": []}
    made = with_previous(remedies={"model_unavailable": "previous"}, policy=policy)
    made["models"][0] = decision_documents.model("m", "2", output="y")
    versions = {"1": decision_documents.thousandth(tmp_path), "2": onnx_models.gather(tmp_path)}
    server = begin(deployment(made, versions))
    assert decided(ask(server, 3))["remedy"] is None
    answer = decided(ask(server, 400))
    assert remedy_of(answer) == ("run_failed", "previous")
    assert (answer["route"], answer["score"]) == ("previous", pytest.approx(0.4))
    assert remedied(server) == {("run_failed", "previous"): 1}


# Feature source down, slow, stale, refusing.


def looked_up(redis: RedisServer, **reactions: Any) -> Json:
    """The decision with one feature of a record in Redis, read anew for each request."""
    feature = {
        "name": "risk",
        "type": "float",
        "lookup": {"source": "accounts", "key": "account", "field": "risk"},
        **reactions,
    }
    source = {
        "kind": "redis", "url": redis.url, "set": "accounts", "timeout_ms": 50,
        "cache": {"ttl_ms": 0, "absent_ttl_ms": 0, "entries_max": 100},
    }  # fmt: skip
    policy = {**decision_documents.POLICY, "rules": [{"when": "risk > 0.5", "then": "reject", "reason": "R2"}]}
    remedies = {"feature_error": {"outcome": "review"}}
    return document(features=[feature], sources={"accounts": source}, policy=policy, remedies=remedies)


@pytest.fixture
def fed(redis: RedisServer, begin: Begin, tmp_path: Path) -> Server:
    """A server whose feature is there: high risk for the account a1."""
    redis.put("flyball:accounts:a1", {"risk": 0.9})
    server = begin(deployment(looked_up(redis, on_error="fault"), {"1": decision_documents.thousandth(tmp_path)}))
    assert decided(ask(server, 100))["outcome"] == "reject"
    return server


def recovered(server: Server) -> bool:
    answer = decided(ask(server, 100))
    return answer["remedy"] is None and answer["outcome"] == "reject"


def test_a_source_that_is_down_is_remedied_and_comes_back_without_a_restart(redis: RedisServer, fed: Server) -> None:
    redis.kill()
    asked = [decided(ask(fed, 100)) for _ in range(5)]
    assert [remedy_of(answer) for answer in asked] == [("feature_unavailable", "outcome")] * 5
    assert {answer["outcome"] for answer in asked} == {"review"}
    assert remedied(fed) == {("feature_unavailable", "outcome"): 5}
    redis.run()
    redis.put("flyball:accounts:a1", {"risk": 0.9})
    until("the source is asked again", lambda: recovered(fed) or None)


def test_a_source_that_hangs_is_remedied_within_its_timeout_and_used_again_once_it_answers(
    redis: RedisServer, fed: Server
) -> None:
    redis.hold()
    answer = decided(ask(fed, 100, X_Request_Timeout_Ms="5000"))
    assert remedy_of(answer) == ("feature_unavailable", "outcome")
    redis.let_go()
    until("the source is used again", lambda: recovered(fed) or None)


def test_a_record_that_is_too_old_meets_what_is_declared_for_stale_ones(
    redis: RedisServer, begin: Begin, tmp_path: Path
) -> None:
    redis.put("flyball:accounts:old", {"risk": 0.9}, age_s=3600)
    redis.put("flyball:accounts:new", {"risk": 0.9})
    versions = {"1": decision_documents.thousandth(tmp_path)}
    fault = looked_up(redis, max_age_ms=60_000, on_stale="fault")
    use = looked_up(redis, max_age_ms=60_000, on_stale="use_stale")
    value = looked_up(redis, max_age_ms=60_000, on_stale={"value": 0.1})
    server = begin(deployment(fault, versions), deployment(use, versions, "use"), deployment(value, versions, "value"))
    assert decided(ask(server, 100, account="new"))["outcome"] == "reject"
    stale = decided(ask(server, 100, account="old"))
    assert (stale["outcome"], remedy_of(stale)) == ("review", ("feature_unavailable", "outcome"))
    used = decided(ask(server, 100, name="use", account="old"))
    assert (used["outcome"], used["remedy"]) == ("reject", None)
    declared = decided(ask(server, 100, name="value", account="old"))
    assert (declared["outcome"], declared["remedy"]) == ("pass", None)


def test_a_source_that_refuses_is_remedied_like_one_that_is_down(redis: RedisServer, fed: Server) -> None:
    """Downstream refuses: from now on nobody may read."""
    assert redis.ask("ACL", "SETUSER", "default", "-@read") == b"+OK\r\n"
    answer = decided(ask(fed, 100))
    assert remedy_of(answer) == ("feature_unavailable", "outcome")
    assert answer["outcome"] == "review"


# Malformed payload.


def test_a_body_that_is_no_request_is_refused_whatever_remedy_is_declared(begin: Begin, tmp_path: Path) -> None:
    made = document(remedies={"invalid_input": {"outcome": "review"}})
    server = begin(deployment(made, {"1": decision_documents.thousandth(tmp_path)}))
    for body in (b"{", b"[]", b'{"input": {}, "extra": 1}', b'{"input": {}, "input": {}}'):
        with Raw(server) as raw:
            head = f"POST /v1/decisions/pay HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
            raw.send(head.encode() + body)
            reply = raw.reply()
        assert reply is not None
        assert problem(reply, 400)["type"] == "urn:flyball:fault:malformed_request"
    assert remedied(server) == {}


def test_fields_that_break_the_schema_are_named_or_get_the_declared_outcome(begin: Begin, tmp_path: Path) -> None:
    versions = {"1": decision_documents.thousandth(tmp_path)}
    lenient = document(remedies={"invalid_input": {"outcome": "review"}})
    server = begin(deployment(document(), versions), deployment(lenient, versions, "lenient"))
    told = problem(ask(server, -3), 422)
    assert told["type"] == "urn:flyball:fault:fields_invalid"
    assert [fault["field"] for fault in told["faults"]] == ["amount"]
    answer = decided(ask(server, -3, name="lenient"))
    assert (answer["outcome"], remedy_of(answer)) == ("review", ("fields_invalid", "outcome"))
    assert answer["score"] is None
    assert remedied(server, "lenient") == {("fields_invalid", "outcome"): 1}


# Timeout.


def test_a_deadline_that_no_run_can_keep_is_answered_by_the_rules_alone(begin: Begin, tmp_path: Path) -> None:
    slow, alone = {"1": decision_documents.weighty(tmp_path, steps=250)}, {"batch_rows_max": 1}
    ruled = deployment(document(remedies={"timeout": "rules"}), slow, limits=alone)
    server = begin(ruled, deployment(document(), slow, "strict", limits=alone))
    fired = decided(ask(server, 950, X_Request_Timeout_Ms="15"))
    assert (fired["outcome"], fired["score"]) == ("reject", None)
    assert fired["remedy"]["used"] == "rules"
    assert fired["remedy"]["cause"] in ("deadline_unreachable", "deadline_passed")
    quiet = decided(ask(server, 100, X_Request_Timeout_Ms="15"))
    assert quiet["outcome"] == "review", "what no rule decides gets the most severe outcome but one"
    assert sum(remedied(server).values()) == 2
    assert problem(ask(server, 100, name="strict", X_Request_Timeout_Ms="15"), 504)["title"]


# Queue full.


@pytest.mark.parametrize("declared", ["shed", {"outcome": "review"}], ids=["shed", "outcome"])
def test_what_finds_the_queue_full_is_shed_or_gets_the_declared_outcome(begin: Begin, tmp_path: Path, declared: Any) -> None:
    made = document(remedies={"queue_full": declared})
    limits = {"queue_wait_ms_max": 1, "batch_rows_max": 1}
    server = begin(deployment(made, {"1": decision_documents.weighty(tmp_path, steps=10)}, limits=limits))
    flood = 12
    body = json.dumps({"input": {"account": "a", "amount": 100}}).encode()
    head = f"POST /v1/decisions/pay HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with raws(server, flood) as connections:
        for raw in connections:
            raw.send(head + body)
        replies = [reply for raw in connections if (reply := raw.reply())]
    assert len(replies) == flood
    if declared == "shed":
        refused = [reply for reply in replies if reply.status == 503]
        assert {reply.status for reply in replies} == {200, 503}
        assert all(int(reply.headers["retry-after"]) >= 1 for reply in refused)
        assert sum(remedied(server).values()) == len(refused)
        return
    answers = [decided(reply) for reply in replies]
    full = [answer for answer in answers if answer["remedy"]]
    assert 0 < len(full) < flood
    assert {remedy_of(answer) for answer in full} == {("wait_too_long", "outcome")}
    assert {answer["outcome"] for answer in full} == {"review"}
    assert remedied(server) == {("wait_too_long", "outcome"): len(full)}


# Telemetry backend down.

PIPE_BYTES = 4096


def _unread(pipe: int) -> int:
    """Bytes that lie in a pipe."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4), sys.byteorder)


@pytest.mark.parametrize("backend", ["gone", "stuck"])
def test_a_log_that_nobody_reads_any_more_holds_up_no_decision(tmp_path: Path, backend: str) -> None:
    """Its reader has closed the pipe, or lets it run full; meanwhile there is more to log than the pipe holds."""
    good = decision_documents.thousandth(tmp_path)
    index = snapshots.write(tmp_path, 1, [deployment(document(), {"1": good})])
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    command = [*serving.flyballd(), "--snapshot", str(index), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, env=serving.environment(), stdout=subprocess.PIPE, stderr=writer, text=True) as process:
        os.close(writer)
        try:
            assert process.stdout
            ready = READY.match(process.stdout.readline().rstrip())
            assert ready
            server = SimpleNamespace(host=ready["host"], port=int(ready["port"]))
            if backend == "gone":
                os.close(reader)
            broken = deployment(document(), {"1": good}, artifact_digest="sha256:" + "0" * 64)
            generations = itertools.count(2)

            def reload_and_ask() -> bool:
                """More to log, and a decision beside it."""
                number = next(generations)
                served = deployment(document(), {"1": good})
                snapshots.write(tmp_path, number, [{**broken, "name": f"broken-{number}"}, served])
                process.send_signal(signal.SIGHUP)
                assert decided(ask(server, 100))["remedy"] is None
                return number > 40 if backend == "gone" else _unread(reader) > PIPE_BYTES - 1024

            until("enough to log", reload_and_ask, timeout_s=30)
            for _ in range(5):
                reload_and_ask()
            assert process.poll() is None
        finally:
            process.kill()
            if backend == "stuck":
                os.close(reader)


# Output outside its guard.


def test_a_score_outside_its_guard_is_no_decision_but_the_declared_outcome(begin: Begin, tmp_path: Path) -> None:
    versions = {"1": decision_documents.thousandth(tmp_path)}
    guarded = document(remedies={"guard_violated": {"outcome": "review"}})
    server = begin(deployment(guarded, versions), deployment(document(), versions, "strict"))
    assert decided(ask(server, 600))["remedy"] is None
    answer = decided(ask(server, 2000))
    assert (answer["outcome"], remedy_of(answer)) == ("review", ("guard_violated", "outcome"))
    assert remedied(server) == {("guard_violated", "outcome"): 1}
    told = problem(ask(server, 2000, name="strict"), 500)
    assert told["type"] == "urn:flyball:fault:guard_violated"
    assert "score" in told["detail"]


def test_a_score_that_is_no_number_is_outside_every_guard(
    begin: Begin, tmp_path: Path, model: Callable[[str], Path]
) -> None:
    """Zero divided by zero: the model gives NaN, and no band takes it."""
    remedies = {"guard_violated": {"outcome": "review"}}
    policy = {**decision_documents.POLICY, "guards": []}
    made = document(models=[decision_documents.model("m", "1", output="score")], remedies=remedies, policy=policy)
    server = begin(deployment(made, {"1": decision_documents.thousandth(tmp_path, "infinite", factor=float("nan"))}))
    answer = decided(ask(server, 100))
    assert (answer["outcome"], remedy_of(answer)) == ("review", ("guard_violated", "outcome"))
