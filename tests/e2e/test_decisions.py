"""Decisions from end to end: one spec, served, asked over every transport, in this process and from files; one answer."""

import csv
import json
import signal
from pathlib import Path

import pytest

import flyball as fb
from flyball.client import Client
from flyball.decision.score.score import score_file
from tests.support import command_line, serving
from tests.support.decision_folders import PLAIN, WHOLE, plain, plain_rows, whole
from tests.support.serving import Server, until

ROW = {"card_id": "c-1", "amount": 1200.5, "currency": "EUR", "country": "FR"}


@pytest.fixture
def served(start, tmp_path):
    """`flyball serve --decision` of the plain decision, on a free port."""

    def started(*more: str) -> Server:
        file = plain(tmp_path)
        return start(*serving.flyball(), "serve", "--decision", file, "--listen", "127.0.0.1:0", *more)

    return started


def said(decided: fb.Decided) -> tuple[object, ...]:
    """What must be the same whoever asks."""
    return (
        decided.decision, decided.outcome, decided.band, decided.score, decided.reasons, decided.models, decided.policy,
        decided.document, decided.schema, decided.route, decided.remedy,
    )  # fmt: skip


def test_http_grpc_and_this_process_give_the_same_decision(served, tmp_path):
    server = served()
    with Client(server.url) as http, Client(f"grpc://{server.address}") as grpc:
        over_http = http.decide("plain", ROW, explain=True)
        over_grpc = grpc.decide("plain", ROW, explain=True)
    with fb.Decision.load(tmp_path / "plain.yaml") as decision:
        here = decision.decide(ROW, explain=True)
    assert said(over_http) == said(over_grpc) == said(here)
    assert over_http.outcome == "review"  # large, and from abroad
    assert [reason.code for reason in over_http.reasons] == ["R07"]
    assert len({over_http.id, over_grpc.id, here.id}) == 3


def test_timings_come_when_they_are_asked_for(served):
    with Client(served().url) as client:
        assert "policy" in client.decide("plain", ROW, timings=True).timings_us
        assert client.decide("plain", ROW).timings_us == {}


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_every_field_that_is_wrong_is_named_on_every_transport(served, scheme):
    with Client(f"{scheme}://{served().address}") as client, pytest.raises(fb.InvalidInputError) as caught:
        client.decide("plain", {**ROW, "amount": -3.0, "currency": "EURO", "contry": "DE"})
    assert caught.value.code == "fields_invalid"
    assert {fault.path for fault in caught.value.faults} == {"amount", "currency", "contry"}
    assert "country" in next(fault.allowed for fault in caught.value.faults if fault.path == "contry")


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_a_decision_that_is_not_there_is_not_found(served, scheme):
    with Client(f"{scheme}://{served().address}") as client, pytest.raises(fb.NotFoundError):
        client.decide("plane", ROW)


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_rows_are_answered_one_by_one(served, scheme):
    rows = plain_rows(200)
    with Client(f"{scheme}://{served().address}") as client:
        answers = client.decide_rows("plain", rows)
        assert [row.id for row in answers] == [str(place) for place in range(200)]
        for row, answer in zip(rows[:40], answers, strict=False):
            if answer.decided is None:
                with pytest.raises(fb.InvalidInputError):
                    client.decide("plain", row)
            else:
                assert said(client.decide("plain", row)) == said(answer.decided)
    assert any(answer.fault for answer in answers)


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_a_retry_with_its_key_gets_the_same_decision_and_another_row_a_conflict(served, scheme):
    with Client(f"{scheme}://{served().address}") as client:
        first = client.decide("plain", ROW, idempotency_key="k")
        again = client.decide("plain", ROW, idempotency_key="k")
        assert (again.id, again.repeated, first.repeated) == (first.id, True, False)
        with pytest.raises(fb.KeyConflictError):
            client.decide("plain", {**ROW, "amount": 1.0}, idempotency_key="k")


def test_a_decision_stands_beside_models(start, tmp_path, model):
    command = [*serving.flyball(), "serve", model("linear"), "--decision", plain(tmp_path), "--listen", "127.0.0.1:0"]
    server = start(*command)
    with Client(server.url) as client:
        assert client.ready("linear")
        assert client.decide("plain", ROW).outcome == "review"


def test_a_signal_reads_the_decision_again_and_faults_change_nothing(served, tmp_path):
    server, file = served(), tmp_path / "plain.yaml"
    with Client(server.url) as client:
        before = client.decide("plain", ROW)
        file.write_text(PLAIN.replace("large && country", "large && contry"))
        server.signal(signal.SIGHUP)
        server.log_line(lambda line: "contry" in json.dumps(line))
        assert client.decide("plain", ROW).policy == before.policy
        file.write_text(PLAIN.replace("then: review", "then: reject"))
        server.signal(signal.SIGHUP)
        until("the new policy", lambda: client.decide("plain", ROW).outcome == "reject")
        assert client.decide("plain", ROW).policy != before.policy


def scored(file: Path, rows: Path, out: Path) -> None:
    ending = command_line.flyball("score", file, "--data", rows, "--out", out)
    assert ending.code == 0, ending.text


def test_files_of_every_kind_are_scored_as_online_bit_for_bit_in_their_order(served, tmp_path):
    from pyarrow import Table, parquet

    rows = plain_rows(1500)
    with Client(served().url) as client:
        online = [answer for place in (0, 1000) for answer in client.decide_rows("plain", rows[place : place + 1000])]
    wanted = [(row.decided.outcome, row.decided.score) if row.decided else None for row in online]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    parquet.write_table(Table.from_pylist(rows, schema=_schema()), tmp_path / "rows.parquet")
    with (tmp_path / "rows.csv").open("w", newline="") as target:
        writer = csv.DictWriter(target, ["card_id", "amount", "currency", "country", "mcc"])
        writer.writeheader()
        writer.writerows(rows)
    for suffix in ("jsonl", "parquet"):
        scored(tmp_path / "plain.yaml", tmp_path / f"rows.{suffix}", tmp_path / "out.parquet")
        found = parquet.read_table(tmp_path / "out.parquet").to_pylist()
        assert [row["card_id"] for row in found] == [row["card_id"] for row in rows]
        assert [None if row["fault"] else (row["outcome"], row["score"]) for row in found] == wanted, suffix
    # An empty cell of CSV is missing, so the rows whose country is an empty text are others there.
    scored(tmp_path / "plain.yaml", tmp_path / "rows.csv", tmp_path / "out.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    for row, line, expected in zip(rows, lines, wanted, strict=True):
        if row["country"]:
            assert (None if "fault" in line else (line["outcome"], line["score"])) == expected


def _schema():
    import pyarrow

    kinds = {"card_id": pyarrow.string(), "amount": pyarrow.float64(), "currency": pyarrow.string(),
             "country": pyarrow.string(), "mcc": pyarrow.int64()}  # fmt: skip
    return pyarrow.schema(list(kinds.items()))


def test_a_file_is_not_scored_over_itself(tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text("card_id\nc\n")
    with pytest.raises(fb.errors.RefusedError, match="is the input file"):
        score_file(fb.Decision.load(plain(tmp_path)), rows, rows)
    assert rows.read_text() == "card_id\nc\n"


def test_windows_count_in_this_process_by_the_time_of_events(tmp_path):
    text = WHOLE.replace("on_error: use_stale", "on_error: 0.5").replace("sources:", "event_time: at\n\nsources:", 1)
    row, began_s = {**ROW, "amount": 12.5, "country": "DE"}, 1_750_000_000
    with whole(tmp_path, text) as decision:
        for later_s in (0, 2000):
            warming = decision.decide({**row, "at": began_s + later_s})
            assert warming.remedy.cause == "guard_violated"  # a window that is not full yet is missing, and so is the score
        answers = [decision.decide({**row, "at": began_s + 4000 + place}) for place in range(25)]
        assert [answer.models[0].model for answer in answers] == ["fraud"] * 25
        fired = ["R11" in [reason.code for reason in answer.reasons] for answer in answers]
        assert fired == [False] * 20 + [True] * 5  # more than 20 payments before this one, in the last hour
        assert answers[20].outcome == "reject"


def test_a_decision_that_was_closed_starts_again(tmp_path):
    decision = fb.Decision.load(plain(tmp_path))
    first = decision.decide(ROW)
    decision.close()
    assert said(decision.decide(ROW)) == said(first)
    decision.close()
