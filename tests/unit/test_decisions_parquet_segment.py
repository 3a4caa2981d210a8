"""A segment in Parquet is checked a few rows at a time, to the last of them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flyball.decision_log.read.parquet_log import ParquetLog
from flyball.decision_log.read.whole_log import WholeLog
from flyball.decision_log.retention import parquet_segment
from flyball.decision_log.retention.compact import compact
from tests.support import journal_folders


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    journal_folders.filled(tmp_path, [14])
    compact(WholeLog(tmp_path))
    monkeypatch.setattr(parquet_segment, "_ROWS_HELD_MAX", 3)
    return ParquetLog(tmp_path).parts(1)


def faults(folder: Path, parts: list[Path]) -> list[str]:
    return parquet_segment.faults_of_segment(WholeLog(folder), parts, ParquetLog(folder).entries[1].root)


def test_no_more_rows_are_held_than_allowed(tmp_path: Path, parts: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    made, held = parquet_segment.table_of, []

    def counted(rows: Any) -> pa.Table:
        table = made(rows)
        held.append(table.num_rows)
        return table

    monkeypatch.setattr(parquet_segment, "table_of", counted)
    assert faults(tmp_path, parts) == []
    assert (sum(held), max(held)) == (14, 3)


def test_a_column_that_is_wrong_in_the_last_row_only_is_found(tmp_path: Path, parts: list[Path]) -> None:
    table = pq.read_table(parts[0], partitioning=None)
    place = table.schema.get_field_index("outcome")
    outcomes = [*table["outcome"].to_pylist()[:-1], "changed"]
    pq.write_table(
        table.set_column(place, table.schema.field(place), pa.array(outcomes, table.schema.field(place).type)), parts[0]
    )
    assert [fault.partition(": ")[2] for fault in faults(tmp_path, parts)] == ["outcome does not match its records"]
