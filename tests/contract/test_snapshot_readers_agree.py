"""One format, two readers: Python's check and Rust's find the same faults in every golden file, and in what is no JSON."""

import json
from pathlib import Path

import pytest

from flyball.documents.snapshot import check
from flyball.errors import RefusedError
from flyball.native.checks import check_snapshot
from tests.support.serving import REPOSITORY

GOLDEN = sorted((REPOSITORY / "tests" / "golden" / "snapshot").glob("v*/*/*.json"))
NO_JSON = {
    "nothing": b"",
    "cut short": b"{",
    "no UTF-8": b"\xff",
    "not a number": b'{"format": NaN}',
    "too deep": b"[" * 100_000,
}


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: "/".join(path.with_suffix("").parts[-3:]))
def test_both_readers_find_the_same_faults_in_a_golden_file(path: Path) -> None:
    golden = json.loads(path.read_text())
    document = json.dumps(golden["document"]).encode()
    by_rust = check_snapshot(golden["kind"], document)
    paths = {fault.path for fault in by_rust}
    assert paths == {fault.path for fault in check(golden["kind"], document)}
    assert paths == set(golden.get("faults", []))
    assert all(fault.allowed for fault in by_rust)


@pytest.mark.parametrize("kind", ["index", "deployment"])
@pytest.mark.parametrize("document", NO_JSON.values(), ids=NO_JSON.keys())
def test_both_readers_find_one_fault_of_the_whole_in_what_is_no_json(kind: str, document: bytes) -> None:
    assert [fault.path for fault in check_snapshot(kind, document)] == [""]
    assert [fault.path for fault in check(kind, document)] == [""]


def test_both_readers_refuse_a_key_that_stands_twice() -> None:
    document = b'{"format": 1, "format": 1, "generation": 1, "deployments": []}'
    assert [fault.path for fault in check("index", document)] == [""]
    assert [fault.path for fault in check_snapshot("index", document)] == [""]


def test_a_kind_that_does_not_exist_is_refused() -> None:
    with pytest.raises(RefusedError, match="'route' is no kind"):
        check_snapshot("route", b"{}")
