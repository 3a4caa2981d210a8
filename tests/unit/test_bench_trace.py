"""Recorded arrivals: one list of offsets from every form in which people have them."""

from datetime import UTC, datetime, timedelta

import pyarrow
import pytest
from pyarrow import parquet

from flyball.bench import trace
from flyball.bench.documents import read_trace
from flyball.errors import ConfigRefusedError, RefusedError

START = datetime(2026, 11, 15, 7, 31, 22, 481_000, tzinfo=UTC)
OFFSETS = [0.0, 0.0013, 0.25, 0.25, 3.000001]


def refused(path):
    with pytest.raises(ConfigRefusedError) as caught:
        read_trace(path)
    assert caught.value.code == "trace_refused"
    return caught.value


def clock_times(zone="+00:00"):
    return [(START + timedelta(seconds=offset)).isoformat().replace("+00:00", zone) for offset in OFFSETS]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.txt", "\n".join(map(str, OFFSETS))),
        ("t.log", "\n\n".join(str(1_731_655_882 + offset) for offset in OFFSETS)),
        ("t.txt", "\n".join(clock_times("Z"))),
        ("t.txt", "\n".join(clock_times(""))),
        ("t.txt", "\n".join(reversed(clock_times("+02:00")))),
        ("t.csv", "id,time\n" + "\n".join(f"{n},{offset}" for n, offset in enumerate(OFFSETS))),
        ("t.csv", "timestamp\n" + "\n".join(clock_times())),
        ("t.jsonl", "\n".join(f'{{"offset_s": {offset}}}' for offset in OFFSETS)),
        ("t.jsonl", "\n".join(f'{{"timestamp": "{moment}"}}' for moment in clock_times())),
    ],
)
def test_times_of_every_form_are_sorted_offsets_from_the_first(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    assert read_trace(str(path)) == pytest.approx(OFFSETS, abs=2e-6)


@pytest.mark.parametrize(
    "column",
    [
        pyarrow.array(OFFSETS),
        pyarrow.array([START + timedelta(seconds=offset) for offset in OFFSETS], pyarrow.timestamp("us", "UTC")),
        pyarrow.array([round(offset * 1e9) for offset in OFFSETS], pyarrow.timestamp("ns")),
        pyarrow.array(clock_times()),
    ],
    ids=["seconds", "microseconds", "nanoseconds", "text"],
)
def test_a_column_of_parquet_is_read_by_its_type(tmp_path, column):
    parquet.write_table(pyarrow.table({"other": [0] * 5, "time": column}), tmp_path / "t.parquet")
    assert read_trace(tmp_path / "t.parquet") == pytest.approx(OFFSETS, abs=1e-9)


def test_a_time_without_a_zone_is_utc(tmp_path):
    (tmp_path / "t.txt").write_text("2026-11-15T07:00:00\n2026-11-15T09:00:01+02:00\n")
    assert read_trace(tmp_path / "t.txt") == [0.0, 1.0]


def test_all_faults_of_a_trace_are_told_with_their_lines(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("1.5\nsoon\n\nnan\n2026-11-15T07:31:22Z\n2\n")
    assert [str(fault).removeprefix(f"{tmp_path}/") for fault in refused(path).faults] == [
        "t.txt:2  is 'soon'; allowed: seconds, as before it",
        "t.txt:4  is 'nan'; allowed: seconds, as before it",
        "t.txt:5  is '2026-11-15T07:31:22Z'; allowed: seconds, as before it",
    ]


def test_a_trace_of_nothing_but_faults_is_told_by_a_page_of_them(tmp_path):
    (tmp_path / "t.txt").write_text("x\n" * 1000)
    error = refused(tmp_path / "t.txt")
    assert error.message.endswith("has 20 faults or more")
    assert len(error.faults) == 20
    assert "ISO 8601" in error.faults[0].allowed


def test_a_gap_in_a_column_is_told_with_its_row(tmp_path):
    parquet.write_table(pyarrow.table({"time": [1.0, None, 2.0]}), tmp_path / "t.parquet")
    assert [fault.at for fault in refused(tmp_path / "t.parquet").faults] == [f"{tmp_path}/t.parquet, row 2"]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_table_without_a_column_of_times_is_told_which_it_has(tmp_path, name):
    if name == "t.csv":
        (tmp_path / name).write_text("when,what\n1,2\n")
    else:
        parquet.write_table(pyarrow.table({"when": [1], "what": [2]}), tmp_path / name)
    assert "no column time, timestamp or offset_s; it has when, what" in refused(tmp_path / name).message


@pytest.mark.parametrize("name", ["t.txt", "t.csv", "t.jsonl"])
def test_a_trace_without_arrivals_is_refused(tmp_path, name):
    (tmp_path / name).write_text("")
    assert refused(tmp_path / name).message.endswith("has no arrivals")


@pytest.mark.parametrize("name", ["t.txt", "t.parquet"])
def test_a_trace_that_is_too_long_is_refused(tmp_path, name, monkeypatch):
    monkeypatch.setattr(trace, "_ARRIVALS_MAX", 3)
    if name == "t.txt":
        (tmp_path / name).write_text("1\n" * 4)
    else:
        parquet.write_table(pyarrow.table({"time": [1.0] * 4}), tmp_path / name)
    assert "more than 3 arrivals" in refused(tmp_path / name).message


@pytest.mark.parametrize("name", ["no.txt", "no.csv", "no.parquet"])
def test_a_trace_that_is_not_there_is_told_by_its_name(tmp_path, name):
    with pytest.raises(RefusedError, match=f"cannot read .*{name}"):
        read_trace(tmp_path / name)
