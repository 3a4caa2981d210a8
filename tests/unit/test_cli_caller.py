"""`flyball caller`: keys that are shown once and kept as hashes, and a file that is never half written."""

import hashlib
import json
import stat

import pytest


@pytest.fixture
def run(run, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: run("caller", *arguments)


@pytest.fixture
def written(tmp_path):
    return lambda: {entry["name"]: entry for entry in json.loads((tmp_path / "callers.json").read_text())["callers"]}


def hashed(key):
    return hashlib.sha256(key.strip().encode()).hexdigest()


def test_a_new_caller_s_key_is_printed_alone_and_only_its_hash_is_kept(run, written, tmp_path):
    code, key, note = run("add", "checkout", "--requests-per-second", "50", "--in-flight-max", "4")
    assert code == 0
    assert len(key.strip()) == 46
    assert "added checkout to callers.json; its key is shown only now" in note
    wanted = {"name": "checkout", "keys_sha256": [hashed(key)], "requests_per_second": 50, "in_flight_max": 4}
    assert written() == {"checkout": wanted}
    assert key.strip() not in (tmp_path / "callers.json").read_text()
    assert stat.S_IMODE((tmp_path / "callers.json").stat().st_mode) == 0o600


def test_a_caller_known_by_certificate_or_user_needs_no_key(run, written):
    code, out, _ = run("add", "batch", "--san", "spiffe://shop/batch", "--uid", "1000")
    assert (code, out) == (0, "")
    assert written()["batch"] == {"name": "batch", "sans": ["spiffe://shop/batch"], "uids": [1000]}


def test_a_caller_may_do_what_it_was_given_and_without_that_nothing(run, written):
    _, _, note = run("add", "checkout")
    assert "has no rights yet" in note
    assert "flyball caller may checkout" in note
    _, _, note = run("add", "operator", "--may", "control", "--may", "decide:fraud")
    assert "nothing" not in note
    run("rotate", "operator")
    assert "may" not in written()["checkout"]
    assert written()["operator"]["may"] == ["control", "decide:fraud"]
    _, out, _ = run("list")
    assert [line.split()[-1] for line in out.splitlines()] == ["may", "1", "decide:fraud"]
    run("may", "operator", "infer:price*", "metrics")
    assert written()["operator"]["may"] == ["infer:price*", "metrics"]
    run("may", "operator")
    assert "may" not in written()["operator"]


def test_anonymous_callers_have_rights_and_no_key(run, written):
    code, out, _ = run("add", "anonymous", "--may", "infer:demo*")
    assert (code, out) == (0, "")
    assert written()["anonymous"] == {"name": "anonymous", "may": ["infer:demo*"]}


def test_rotation_keeps_the_old_key_until_it_is_dropped(run, written):
    _, old, _ = run("add", "a")
    _, new, _ = run("rotate", "a")
    assert written()["a"]["keys_sha256"] == [hashed(old), hashed(new)]
    code, out, _ = run("rotate", "a", "--drop-old")
    assert (code, out) == (0, "")
    assert written()["a"]["keys_sha256"] == [hashed(new)]


def test_callers_are_listed_and_removed(run, written):
    run("add", "a")
    run("add", "b", "--uid", "7", "--requests-per-second", "9")
    _, out, _ = run("list")
    assert [line.split()[0] for line in out.splitlines()] == ["caller", "a", "b"]
    _, out, _ = run("list", "--json")
    assert [entry["uids"] for entry in json.loads(out)] == [[], [7]]
    assert run("remove", "a")[0] == 0
    assert list(written()) == ["b"]


@pytest.mark.parametrize("arguments", [("add", "a"), ("rotate", "b"), ("remove", "b")])
def test_a_name_that_is_taken_or_missing_is_wrong_usage(run, written, arguments):
    run("add", "a")
    before = written()
    code, _, errors = run(*arguments)
    assert code == 2
    assert "caller" in errors
    assert written() == before


@pytest.mark.parametrize(
    "flags",
    [
        ("a b",),
        ("none",),
        ("a", "--burst", "5"),
        ("a", "--in-flight-max", "0"),
        ("a", "--uid", "-1"),
        ("a", "--may", "run:x"),
        ("a", "--may", "erase:x"),
        ("anonymous", "--uid", "1"),
    ],
)
def test_what_no_server_would_take_is_not_written(run, tmp_path, flags):
    code, _, errors = run("add", *flags)
    assert code in (2, 3)
    assert errors
    assert not (tmp_path / "callers.json").exists()


def test_a_broken_file_is_refused_and_left_as_it_is(run, tmp_path):
    path = tmp_path / "callers.json"
    path.write_text('{"callers": [{"name": "a", "colour": 1}], "x": 2}')
    code, _, errors = run("add", "b")
    assert code == 3
    assert "callers[0].colour" in errors
    assert "x" in errors
    assert "colour" in path.read_text()
