"""Records on the disk: whole or not there, and readable by versions that know less or allow less."""

import errno
import json
import os
from pathlib import Path

import pytest

from flyball.bench.record import BenchRecord
from flyball.bench.report import report_document
from flyball.errors import FlyballError, RefusedError
from tests.support.bench_records import record, scenario, window

GOLDEN = Path(__file__).parents[1] / "golden/bench/flyball-bench-1.json"
CONTRACT = {"contract": "payments", "model": "fraud", "rate_per_s": 2000.0, "p99_ms": 5.0}


@pytest.fixture
def document():
    """A record as it lies in its file."""
    found = record([window(count=50)], contract=CONTRACT)
    return json.loads(found.model_dump_json())


@pytest.fixture
def read(tmp_path):
    def write_and_read(document):
        path = tmp_path / "r.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return BenchRecord.read(path)

    return write_and_read


def test_the_golden_record_is_read_and_reported():
    found = BenchRecord.read(GOLDEN)
    assert (found.status, found.scenario.scenario, found.scenario.slo.p99_ms) == ("complete", "fraud-gbdt", 5.0)
    assert found.contract.rate_per_s == 2000.0
    assert [(each.subject, each.phase) for each in found.windows] == [("flyball", "steady"), ("flyball", "soak")]
    assert found.windows[0].plan.arrivals.kind == "poisson"
    assert found.windows[1].memory[1].memory_bytes == 61_000_900
    told = report_document(found)["subjects"][0]
    assert told["latency_us"]["p50"]["value"] == pytest.approx(214.0, rel=0.001)
    assert told["rate_kept"]["rate_per_s"] == 12_400.0


def test_a_record_is_read_as_it_was_written(tmp_path):
    found = record([window(count=50)], contract=CONTRACT)
    found.write(tmp_path / "new/r.json")
    assert BenchRecord.read(tmp_path / "new/r.json") == found
    assert os.listdir(tmp_path / "new") == ["r.json"]


def test_a_compressed_record_is_read_as_it_was_written(tmp_path):
    found = record([window(count=50)], contract=CONTRACT)
    found.write(tmp_path / "r.json")
    found.write(tmp_path / "r.json.gz")
    assert BenchRecord.read(tmp_path / "r.json.gz") == found
    assert (tmp_path / "r.json.gz").stat().st_size < (tmp_path / "r.json").stat().st_size / 2


@pytest.mark.parametrize("content", [b"", b"{}", b"\x1f\x8b\x08"])
def test_what_is_not_compressed_under_such_a_name_is_refused(tmp_path, content):
    (tmp_path / "r.json.gz").write_bytes(content)
    with pytest.raises(RefusedError):
        BenchRecord.read(tmp_path / "r.json.gz")


@pytest.mark.parametrize(
    ("changes", "where"),
    [({"connections": "many"}, "scenario.connections"), ({"slo": None}, "scenario.slo"), ({"model": 5}, "scenario.model")],
)
def test_a_scenario_of_another_type_is_no_record(document, read, changes, where):
    document["scenario"] = scenario(**changes)
    with pytest.raises(RefusedError, match=f"is not a benchmark record: {where}"):
        read(document)


def test_a_record_of_another_format_names_it_and_nothing_else(read):
    with pytest.raises(RefusedError) as caught:
        read({"format": "flyball-bench/7", "windows": "elsewhere"})
    assert caught.value.message.endswith("r.json was written by another version of flyball (format flyball-bench/7)")
    assert caught.value.code == "record_refused"


@pytest.mark.parametrize("text", ["", "{}", "[]", "5", '{"format": "other/1"}', '{"format": 5}', "[" * 5000])
def test_what_is_no_record_is_refused_with_the_command_that_makes_one(read, text):
    with pytest.raises(RefusedError, match="is not a benchmark record") as caught:
        read(text)
    assert caught.value.next_step.startswith("make one:")


def test_a_full_disk_is_one_error_and_leaves_the_last_record_alone(tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    first = record([window(count=50)])
    first.write(path)

    def full(file):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FlyballError) as caught:
        record([]).write(path)
    assert caught.value.message == f"cannot write {path}: No space left on device; the measurement stops"
    assert caught.value.code == "record_not_written"
    assert BenchRecord.read(path) == first
    assert os.listdir(tmp_path) == ["r.json"]


def test_a_record_is_on_the_disk_before_it_takes_the_place_of_the_last(tmp_path, monkeypatch):
    steps = []
    monkeypatch.setattr(os, "fsync", lambda file: steps.append(os.fstat(file).st_size))
    monkeypatch.setattr(os, "replace", lambda beside, path: steps.append(beside.name))
    record([]).write(tmp_path / "r.json")
    size = (tmp_path / ".r.json.new").stat().st_size
    assert size > 0
    assert steps == [size, ".r.json.new"]


def test_a_folder_that_cannot_be_made_is_told_as_well(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FlyballError, match=r"cannot write .*: .*; the measurement stops") as caught:
        record([]).write(tmp_path / "file/r.json")
    assert caught.value.code == "record_not_written"
