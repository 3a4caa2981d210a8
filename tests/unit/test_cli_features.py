"""`flyball features`: what is pushed is what is found, and what cannot be pushed changes nothing."""

import datetime
import json
import sys

import pyarrow
import pytest
from pyarrow import parquet

from flyball.feature_store.target import Target
from tests.support import external_servers

CARDS = "card_id,limit,country,code,vip,since\n0042,5000,DE,0123,true,2020-01-01\n7,250.5,FR,9,false,\n"


@pytest.fixture
def here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cards.csv").write_text(CARDS)
    return tmp_path


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    with external_servers.redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def run(run):
    return lambda *arguments: run("features", *arguments)


def fields(run, key, *place):
    code, out, errors = run("get", key, "--set", "cards", *place, "--json")
    assert code == 0, errors
    return json.loads(out)["fields"]


def test_a_csv_becomes_records_of_numbers_texts_and_bools(run, here):
    code, out, errors = run("push", "cards.csv", "--store", "store.redb", "--set", "cards", "--key-column", "card_id")
    assert code == 0, errors
    assert out.startswith("2 records, ")
    assert "push cards: 2 rows in" in errors
    place = ("--store", "store.redb")
    assert fields(run, "0042", *place) == {
        "limit": 5000.0, "country": "DE", "code": "0123", "vip": True, "since": "2020-01-01"
    }  # fmt: skip
    assert fields(run, "7", *place) == {"limit": 250.5, "country": "FR", "code": "9", "vip": False}


def test_redis_has_the_same_records_and_lets_them_go_when_asked(run, here, redis):
    place = ("--store", redis.url, "--set", "cards", "--key-column", "card_id")
    code, out, _ = run("push", "cards.csv", *place, "--columns", "country, vip", "--expire-s", "100", "--json")
    assert code == 0
    assert {**json.loads(out), "bytes": 0} == {"to": redis.url, "set": "cards", "rows": 2, "bytes": 0}
    assert fields(run, "0042", "--store", redis.url) == {"country": "DE", "vip": True}
    assert redis.ask("TTL", "flyball:cards:0042") in (b":100\r\n", b":99\r\n")


def test_parquet_keeps_its_types_and_what_is_null_is_left_out(run, here):
    rows = {
        "card_id": [1, 2],
        "limit": [2**53 + 1, None],
        "risk": [0.1, float("nan")],
        "seen": [datetime.datetime(2024, 5, 1, 12, 0), None],
    }
    parquet.write_table(pyarrow.table(rows), here / "cards.parquet")
    assert run("push", "cards.parquet", "--store", "store.redb", "--set", "cards", "--key-column", "card_id")[0] == 0
    first = fields(run, "1", "--store", "store.redb")
    assert first == {"limit": 2**53 + 1, "risk": 0.1, "seen": "2024-05-01T12:00:00+00:00"}
    assert fields(run, "2", "--store", "store.redb") == {}


def test_many_rows_are_all_there(run, here):
    lines = "".join(f"c{number},{number}\n" for number in range(2500))
    (here / "many.csv").write_text("id,n\n" + lines)
    code, out, _ = run("push", "many.csv", "--store", "store.redb", "--set", "cards", "--key-column", "id", "--json")
    assert (code, json.loads(out)["rows"]) == (0, 2500)
    assert [fields(run, f"c{number}", "--store", "store.redb")["n"] for number in (0, 999, 1000, 2499)] == [
        0,
        999,
        1000,
        2499,
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("card_id,limit\n,5\n", "cards.csv:2: the key 'card_id' is ''"),
        ("card_id,limit\n", "has no rows"),
        ("card_id\n1\n", "only the key"),
        ("id,limit\n1,2\n", "no column 'card_id'"),
        ("card_id,limit\n1\n", "cells"),
        (f"card_id,limit\n{'x' * 2000},5\n", "a key must have 1 to 1024 bytes"),
        (f"card_id,limit\n1,{'x' * 70_000}\n", "larger than"),
    ],
    ids=["no key", "no rows", "no fields", "no column", "ragged", "long key", "large record"],
)
def test_a_file_that_cannot_be_pushed_is_refused_and_the_store_stays_as_it_was(run, here, text, words):
    push = ("--store", "store.redb", "--set", "cards", "--key-column", "card_id")
    assert run("push", "cards.csv", *push)[0] == 0
    before = (here / "store.redb").read_bytes()
    (here / "cards.csv").write_text(text)
    code, _, errors = run("push", "cards.csv", *push)
    assert code == 3
    assert words in errors
    assert (here / "store.redb").read_bytes() == before
    assert not (here / "store.redb.draft").exists()


def test_a_list_in_a_column_is_refused_by_its_row_and_name(run, here):
    (here / "cards.jsonl").write_text('{"card_id": "a", "limit": 1}\n{"card_id": "b", "limit": [1]}\n')
    code, _, errors = run("push", "cards.jsonl", "--store", "store.redb", "--set", "cards", "--key-column", "card_id")
    assert code == 3
    assert "cards.jsonl:2: limit is a list" in errors


def test_a_redis_that_is_not_there_is_unavailable_and_no_password_is_shown(run, here, monkeypatch):
    monkeypatch.setenv("FEATURES", "redis://me:secret@127.0.0.1:1/0")
    for verb in (
        ("push", "cards.csv", "--store-env", "FEATURES", "--key-column", "card_id"),
        ("get", "1", "--store-env", "FEATURES"),
    ):
        code, _, errors = run(*verb, "--set", "cards")
        assert code == 5, errors
        assert "127.0.0.1:1" in errors
        assert "secret" not in errors


def test_a_place_is_shown_without_user_and_password_wherever_they_stand():
    shown = {
        "redis://me:secret@host:6379/0": "redis://host:6379/0",
        "redis+unix:///run/x.sock?user=me&pass=secret": "redis+unix:///run/x.sock",
        "unix:///run/x.sock?pass=s@secret": "unix:///run/x.sock",
    }
    assert {text: str(Target.parse(text)) for text in shown} == shown


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ((), "give either --store or --store-env"),
        (("--store", "http://me:secret@host"), "http://… is not a feature store"),
        (("--store", "rediss://host"), "TLS"),
        (("--store", "store.sqlite"), ".redb"),
        (("--store-env", "NOTHING_HERE"), "NOTHING_HERE is not set"),
        (("--store", "store.redb", "--expire-s", "5"), "--expire-s is for Redis"),
    ],
)
def test_a_place_that_makes_no_sense_is_wrong_usage(run, here, place, words):
    code, _, errors = run("push", "cards.csv", "--set", "cards", "--key-column", "card_id", *place)
    assert code == 2
    assert words in errors
    assert "secret" not in errors


def test_a_key_that_is_not_there_and_a_set_that_is_not_there_are_told_apart(run, here):
    run("push", "cards.csv", "--store", "store.redb", "--set", "cards", "--key-column", "card_id")
    code, _, errors = run("get", "9", "--store", "store.redb", "--set", "cards")
    assert code == 3
    assert "set cards of store.redb has no key '9'" in errors
    code, _, errors = run("get", "9", "--store", "store.redb", "--set", "shops")
    assert code == 3
    assert "cannot read set shops of store.redb" in errors


def test_parquet_without_pyarrow_says_what_to_install(run, here, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (here / "cards.parquet").write_bytes(b"PAR1")
    code, _, errors = run("push", "cards.parquet", "--store", "store.redb", "--set", "cards", "--key-column", "card_id")
    assert code == 2
    assert "pip install 'flyball[rows]'" in errors
