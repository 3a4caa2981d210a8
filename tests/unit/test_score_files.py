"""Rows in and out of files: what a cell becomes as a field's value, and that order, types and columns are kept."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from flyball.decision.score.files import RowsIn, field_value, open_out
from flyball.errors import RefusedError
from flyball.rows.rows_file import Untyped

ADDED = {"outcome": "text", "score": "number"}


@pytest.mark.parametrize(
    ("kind", "cell", "value"),
    [
        ("float", Untyped("1.5"), 1.5),
        ("int", Untyped("3"), 3),
        ("bool", Untyped("True"), True),
        ("bool", Untyped("0"), False),
        ("string", Untyped("3"), "3"),
        ("category", Untyped("NO"), "NO"),
        ("float", Untyped(""), None),
        ("float", Untyped("nan"), None),
        ("float", Untyped("much"), "much"),
        ("int", Untyped("3.5"), "3.5"),
        ("time", Untyped("2026-11-15T07:32:01Z"), "2026-11-15T07:32:01Z"),
        ("time", Untyped("1750000000"), 1750000000.0),
        ("float", float("nan"), None),
        ("float", float("inf"), "inf"),
        ("int", 5.0, 5),
        ("int", 5.5, 5.5),
        ("float", 5.0, 5.0),
        ("float", Decimal("1.25"), 1.25),
        ("string", None, None),
        ("string", b"\xc3\xbc", "ü"),
        ("time", datetime(2026, 11, 15, 7, 32), "2026-11-15T07:32:00+00:00"),
        ("time", datetime(2026, 11, 15, tzinfo=UTC), "2026-11-15T00:00:00+00:00"),
        ("time", date(2026, 11, 15), "2026-11-15T00:00:00+00:00"),
    ],
)
def test_a_cell_is_what_its_field_takes_or_stays_as_it_is(kind, cell, value):
    found = field_value(kind, cell)
    assert (found, type(found)) == (value, type(value))


@pytest.fixture
def rows():
    return [{"name": f"n{place}", "amount": place / 4, "mark": None if place % 3 else place} for place in range(10)]


def written(path, rows, suffix):
    file = path / f"rows.{suffix}"
    if suffix == "parquet":
        from pyarrow import Table, parquet

        parquet.write_table(Table.from_pylist(rows), file)
    elif suffix == "jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        lines = [",".join("" if value is None else str(value) for value in row.values()) for row in rows]
        file.write_text("\n".join(["name,amount,mark", *lines]) + "\n")
    return file


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "csv"])
@pytest.mark.parametrize("to", ["parquet", "jsonl", "csv"])
def test_rows_keep_their_order_and_columns_whatever_the_files_are(tmp_path, rows, suffix, to):
    source = RowsIn(written(tmp_path, rows, suffix))
    assert (source.count, source.columns) == (10, ["name", "amount", "mark"])
    out = open_out(tmp_path / f"out.{to}", source, ADDED)
    sizes = []
    for chunk in source.chunks(4):
        sizes.append(len(chunk.rows))
        out.write(chunk, [{"outcome": row["name"], "score": 0.5} if row["name"] != "n3" else {} for row in chunk.rows])
    out.close()
    assert sizes == [4, 4, 2]
    again = RowsIn(tmp_path / f"out.{to}")
    assert again.columns == ["name", "amount", "mark", "outcome", "score"]
    found = [row for chunk in again.chunks(100) for row in chunk.rows]
    assert [row["name"] for row in found] == [f"n{place}" for place in range(10)]
    assert [row.get("outcome") or None for row in found] == [None if place == 3 else f"n{place}" for place in range(10)]


def test_types_of_parquet_are_kept(tmp_path, rows):
    from pyarrow import parquet

    source = RowsIn(written(tmp_path, rows, "parquet"))
    out = open_out(tmp_path / "out.parquet", source, ADDED)
    for chunk in source.chunks(5):
        out.write(chunk, [{"outcome": "pass", "score": 0.25}] * len(chunk.rows))
    out.close()
    schema = parquet.read_schema(tmp_path / "out.parquet")
    assert [str(field.type) for field in schema] == ["string", "double", "int64", "string", "double"]
    assert parquet.read_table(tmp_path / "out.parquet").column("mark").to_pylist() == [row["mark"] for row in rows]


def test_lines_of_json_may_have_different_keys(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"a": 1}\n{"b": 2}\n')
    assert RowsIn(file).columns == ["a", "b"]


def test_files_of_other_kinds_are_refused(tmp_path):
    with pytest.raises(RefusedError, match="not a supported file of rows"):
        RowsIn(tmp_path / "rows.txt")
    source = RowsIn(written(tmp_path, [{"a": 1}], "jsonl"))
    with pytest.raises(RefusedError, match="unknown suffix"):
        open_out(tmp_path / "out.txt", source, ADDED)
    with pytest.raises(RefusedError, match="cannot write"):
        open_out(tmp_path / "no" / "out.csv", source, ADDED)
