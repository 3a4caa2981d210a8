"""Queries over a log: what filters mean, what was told later, and what stays out of sight."""

import csv
import json
import uuid

import pytest
from pyarrow import parquet

from flyball.decision_log.read import columns, views
from flyball.decision_log.read.filters import Filters, instant
from flyball.decision_log.read.query import by_filters, by_sql
from flyball.errors import UsageError
from flyball.native.journal import JournalLog
from tests.support import journal_folders
from tests.support.handwritten_log import DAY_NS, ID, TOKEN, HandwrittenLog, decision, told

HOUR_NS = 3_600_000_000_000


@pytest.fixture
def log(tmp_path):
    return HandwrittenLog(
        tmp_path,
        decision(1),
        decision(2, outcome="pass", score=0.1, decision="loan", personal=None, subject=None),
        told("outcome", 1, decision="card-fraud", truth="fraud", when=None, source="bank", caller=None),
        told("undelivered", 2),
        told("outcome", 1, decision="card-fraud", truth={"fraud": False}, when=DAY_NS, source="court", caller="ledger"),
        told("override", 1, decision="card-fraud", outcome="pass", by="ana", why="known customer", caller="desk"),
        told("shadow", 1, decision="card-fraud", of="variant", variant="next", score=0.5, outcome="review", agrees=False),
        told("failed", 3, decision="loan", fault=["run_failed", "infer", "no"]),
        {"kind": "gap", "id": "0" * 8 + "-0000-0000-0000-" + "0" * 12, "count": 3, "open": False},
        decision(4, score="NaN"),
    )


def rows(log, sql):
    with by_sql(log, sql) as answer:
        return list(answer.rows())


def ids(log, **filters):
    with by_filters(log, Filters(**filters)) as answer:
        return [row["id"] for row in answer.rows()]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, [1, 2, 4]),
        ({"decision": "loan"}, [2]),
        ({"outcome": "reject"}, [1, 4]),
        ({"since_ns": DAY_NS + HOUR_NS}, [2, 4]),
        ({"until_ns": DAY_NS + HOUR_NS}, [1]),
        ({"since_ns": DAY_NS + HOUR_NS, "until_ns": DAY_NS + 2 * HOUR_NS}, [2]),
        ({"subject": TOKEN}, [1, 4]),
        ({"where": "score < 0.5 or input->>'country' = 'DE'"}, [2]),
        ({"decision": "loan' or true or '"}, []),
        ({"decision": "loan", "where": "false or outcome = 'reject'"}, []),
    ],
)
def test_all_filters_must_hold(log, filters, found):
    assert ids(log, **filters) == [ID.format(number) for number in found]


def test_a_decision_has_the_last_truth_and_the_last_override_beside_it(log):
    (row,) = rows(log, f"select * from decisions where id = '{ID.format(1)}'")
    assert (row["outcomes"], row["truth"], row["truth_source"]) == (2, {"fraud": False}, "court")
    assert row["truth_time"] == "2025-11-15T04:00:00Z"
    assert (row["overrides"], row["override_outcome"], row["override_by"], row["final"]) == (1, "pass", "ana", "pass")
    assert (row["override_why"], row["override_caller"], row["truth_caller"]) == ("known customer", "desk", "ledger")


def test_a_decision_of_which_nothing_was_told_stands_as_it_was(log):
    (row,) = rows(log, f"select * from decisions where id = '{ID.format(2)}'")
    assert (row["outcomes"], row["truth"], row["overrides"], row["final"]) == (0, None, 0, "pass")


def test_what_was_told_of_a_decision_counts_though_the_search_begins_after_it_was_asked_for(log):
    with by_filters(log, Filters(since_ns=DAY_NS)) as answer:
        assert next(answer.rows())["final"] == "pass"


def test_who_hung_up_is_seen(log):
    assert rows(log, "select id, delivered from decisions order by seq limit 2") == [
        {"id": ID.format(1), "delivered": True},
        {"id": ID.format(2), "delivered": False},
    ]


def test_every_record_is_in_just_one_view(log):
    parts = " union all ".join(f"select seq from {name}" for name in views.VIEWS if name != "records")
    assert [row["seq"] for row in rows(log, f"select seq from ({parts}) order by seq")] == list(range(10))


def test_what_a_view_gives_has_types(log):
    (row,) = rows(log, "select features, agrees, fault, record from records where seq in (6) limit 1")
    assert row["agrees"] is False
    (failed,) = rows(log, "select * from failures")
    assert failed["fault"] == ["run_failed", "infer", "no"]
    (event,) = rows(log, "select id, kind, record from events where kind = 'gap'")
    assert (event["id"], event["record"]["count"]) == (None, 3)
    (first,) = rows(log, "select features->'payments_1h'->>'value' as payments, models from decisions limit 1")
    assert (first["payments"], first["models"][0]["version"]) == ("23", "7")


def test_a_score_that_is_no_number_survives_and_is_written_as_text(log):
    assert rows(log, "select score from decisions where isnan(score)") == [{"score": "NaN"}]


def test_nothing_personal_is_in_any_column_unless_it_is_asked_for(tmp_path):
    opened = decision(1, input={"amount": 1.0, "card_id": "4242"}, personal_fields=["card_id"])
    del opened["personal"]
    digits = {"value": 4, "origin": "computed", "age_ms": None}
    opened |= {"features": {**opened["features"], "digits": digits}, "personal_features": ["digits"]}
    log = HandwrittenLog(tmp_path, opened, told("erased", 1, subject=TOKEN), decision(2, personal="erased"))
    with by_sql(log, "select id, input, features, revealed, erased from decisions", reveal=True) as answer:
        first, second = answer.rows()
    assert (first["input"], first["revealed"]) == ({"amount": 1.0}, {"card_id": "4242", "digits": 4})
    assert (first["features"], first["erased"]) == (second["features"], True)
    assert (second["revealed"], second["erased"]) == ("erased", False)
    sealed = HandwrittenLog(tmp_path, decision(1))
    with by_sql(sealed, "select * from decisions") as answer:
        assert "revealed" not in answer.columns


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("select nonsense from decisions", "nonsense"),
        ("selec", "selec"),
        ("create table x (y int)", "must be a single SELECT"),
        ("select 1; select 2", "must be a single SELECT"),
    ],
)
def test_sql_that_cannot_be_is_refused_with_the_way_to_the_columns(log, sql, message):
    with pytest.raises(UsageError) as caught, by_sql(log, sql) as answer:
        list(answer.rows())
    assert message in caught.value.message
    assert caught.value.next_step


def test_rows_go_to_files_by_their_suffix(log, tmp_path):
    with by_filters(log, Filters(decision="loan")) as answer:
        for suffix in (".parquet", ".csv", ".jsonl"):
            (tmp_path / f"rows{suffix}").touch(0o644)
            assert answer.write(tmp_path / f"rows{suffix}") == 1
            assert (tmp_path / f"rows{suffix}").stat().st_mode & 0o777 == 0o600, "it may have what is personal"
        with pytest.raises(UsageError, match="unknown suffix"):
            answer.write(tmp_path / "rows.txt")
    assert parquet.read_table(tmp_path / "rows.parquet")["id"].to_pylist() == [ID.format(2)]
    (row,) = csv.DictReader((tmp_path / "rows.csv").read_text().splitlines())
    assert row["id"] == ID.format(2)
    assert json.loads((tmp_path / "rows.jsonl").read_text())["features"]["payments_1h"]["value"] == 23


def test_parquet_has_the_same_columns_as_segments(log):
    proof = {"seq": 0, "segment": 1, "frame": 1, "prev": b"\0" * 32, "leaf": b"\0" * 32, "payload": b""}
    written = columns.table_of(columns.row_of(record, proof) for record in log.records_given)
    with by_sql(log, "select * from records order by seq") as answer:
        read = list(answer.rows())
    compared = [column for column in columns.COLUMNS if column.name not in (*columns.PROOF, "time", "score")]
    for row, other in zip(written.to_pylist(), read, strict=True):
        for column in compared:
            cell = row[column.name]
            plain = json.loads(cell) if column.type == "JSON" and cell is not None else cell
            assert plain == other[column.name], column.name


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("2025-11-15", DAY_NS),
        ("2025-11-15T01:00", DAY_NS + HOUR_NS),
        ("2025-11-15T01:00:00.118+01:00", DAY_NS + 118_000_000),
        ("1h", DAY_NS - HOUR_NS),
        ("90s", DAY_NS - 90_000_000_000),
        ("2d", DAY_NS - 48 * HOUR_NS),
    ],
)
def test_times_are_ago_or_iso_and_utc_where_they_do_not_say(text, ns):
    assert instant(text, now_ns=DAY_NS) == ns


@pytest.mark.parametrize("text", ["", "yesterday", "1y", "2025-13-01", "-1h"])
def test_what_is_no_time_is_refused_with_an_example(text):
    with pytest.raises(UsageError, match="is not a time"):
        instant(text)


def test_a_text_may_hold_what_ends_a_line_elsewhere(tmp_path):
    folder = journal_folders.JournalFolder(tmp_path / "journal")
    note = "one\u2028two\x85three"
    pairs = journal_folders.decision_pairs("card-fraud", "pass", folder.now_ns) | {"input": {"note": note}}
    folder.add("decision", uuid.UUID(ID.format(1)), **pairs)
    folder.write()
    assert rows(JournalLog(folder.path), "select input->>'note' as note from decisions") == [{"note": note}]
