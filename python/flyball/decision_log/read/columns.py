"""The columns of records: what SQL sees, and what Parquet holds. docs/reference/decision-records.md says the same.

One shape for all kinds of record; a column that a kind does not have is null. What has a shape of its own is JSON text.
Nothing personal is here: that is in `payload`, encrypted, and there only. Must not know files.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Type = Literal["BIGINT", "BOOLEAN", "DOUBLE", "JSON", "TIMESTAMPTZ", "VARCHAR"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column; its name is the key in a record's JSON, where it is not made of others."""

    name: str
    type: Type
    about: str


COLUMNS = (
    Column("seq", "BIGINT", "number in the log, without holes"),
    Column("segment", "BIGINT", "the segment that it was written to"),
    Column("frame", "BIGINT", "its place among the frames there, from 0"),
    Column("leaf", "VARCHAR", "its hash, hex: what `verify` proves"),
    Column("kind", "VARCHAR", "decision, failed, shadow, undelivered, outcome, override, …"),
    Column("id", "VARCHAR", "the decision that it is, or is about; null: none"),
    Column("at", "BIGINT", "when, in ns since 1970"),
    Column("time", "TIMESTAMPTZ", "the same, to the µs"),
    Column("mono", "BIGINT", "the node's monotonic time in ns; compares within one boot"),
    Column("decision", "VARCHAR", "the decision's name"),
    Column("document", "VARCHAR", "digest of the document that decided"),
    Column("policy", "VARCHAR", "digest of its policy"),
    Column("schema", "VARCHAR", "digest of its input's schema"),
    Column("runtime", "VARCHAR", "digest of what makes a run differ from machine to machine"),
    Column("models", "JSON", "those that took part: [{model, version, digest}]"),
    Column("protocol", "VARCHAR", "how it was asked"),
    Column("caller", "VARCHAR", "who asked, where callers are known"),
    Column("key", "VARCHAR", "idempotency key"),
    Column("trace", "VARCHAR", "trace id"),
    Column("single", "BOOLEAN", "asked alone, not as one of many rows"),
    Column("variant", "VARCHAR", "the variant of a split that decided"),
    Column("route", "VARCHAR", "champion, split, fallback, rules, declared or kill_switch"),
    Column("score", "DOUBLE", "the score that the policy judged"),
    Column("outcome", "VARCHAR", "what was decided; of an override: what it is instead"),
    Column("band", "VARCHAR", "the band that the score fell into"),
    Column("rules", "JSON", "rules that fired, by their places in the policy, from 0"),
    Column("reasons", "JSON", "[{code, field, contribution}], the weightiest first"),
    Column("explain", "BOOLEAN", "reasons were asked for"),
    Column("remedy", "JSON", "{cause, stage, used}, where a remedy decided"),
    Column("features", "JSON", "{name: {value, origin, age_ms}}, as used"),
    Column("scores", "JSON", "{model: score} of every model that ran"),
    Column("outputs", "JSON", "{model: {output: [numbers]}}"),
    Column("batch", "JSON", "[{model, rows, position}]: the runs that it was part of"),
    Column("timings", "JSON", "{stage: ns}"),
    Column("input", "JSON", "what was sent, without what is personal"),
    Column("input_blob", "JSON", "digest and length of a long input, kept beside the log; `show` has it"),
    Column("subject", "VARCHAR", "token of whom it is about, where something is personal"),
    Column("personal", "BOOLEAN", "something personal was sent, and is kept encrypted"),
    Column("sampled", "BOOLEAN", "false: kept without input, features and outputs"),
    Column("masked", "JSON", "names of fields whose values are left out"),
    Column("fault", "JSON", "of failed: kind, stage and text"),
    Column("truth", "JSON", "of outcome: what turned out to be true"),
    Column("when", "BIGINT", "of outcome: the truth's own time, in ns since 1970"),
    Column("source", "VARCHAR", "of outcome: where the truth comes from"),
    Column("by", "VARCHAR", "who overrode, erased, held or released"),
    Column("why", "VARCHAR", "and why; of erased only with --reveal"),
    Column("name", "VARCHAR", "of hold and release"),
    Column("of", "VARCHAR", "of shadow: variant or policy"),
    Column("agrees", "BOOLEAN", "of shadow: it has the decision's outcome"),
    Column("record", "JSON", "of the kinds that are no row and say more than this: the whole record"),
)
PROOF = ("seq", "segment", "frame", "prev", "leaf", "payload")

_NO_ID = "00000000-0000-0000-0000-000000000000"
_PERSONAL = ("personal", "personal_fields", "personal_features", "personal_values")
_WHOLE = ("tensors", "served", "registry", "hold", "release", "recovered", "gap", "quarantined")
_ARROW = {
    "BIGINT": pa.int64(),
    "BOOLEAN": pa.bool_(),
    "DOUBLE": pa.float64(),
    "JSON": pa.string(),
    "TIMESTAMPTZ": pa.timestamp("us", tz="UTC"),
    "VARCHAR": pa.string(),
}

SCHEMA = pa.schema(
    [
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("segment", pa.int64(), nullable=False),
        pa.field("frame", pa.int64(), nullable=False),
        pa.field("prev", pa.binary(32), nullable=False),
        pa.field("leaf", pa.binary(32), nullable=False),
        pa.field("payload", pa.binary(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        *(pa.field(column.name, _ARROW[column.type]) for column in COLUMNS if column.name not in (*PROOF, "kind")),
    ]
)


def row_of(record: Mapping[str, Any], proof: Mapping[str, Any]) -> dict[str, Any]:
    """A record's columns in Parquet; `proof` has those of `PROOF`, which are the log's and not the record's."""
    cells = {column.name: _cell(column, record) for column in COLUMNS if column.name not in PROOF}
    return {**{name: proof[name] for name in PROOF}, **cells}


def plain_input(record: Mapping[str, Any]) -> dict[str, Any] | None:
    """What was sent, without what is personal, whether a key was at hand or not."""
    return _plain(record, "input", "personal_fields")


def plain_features(record: Mapping[str, Any]) -> dict[str, Any] | None:
    """The features that were used, without those that are made of what is personal."""
    return _plain(record, "features", "personal_features")


def _plain(record: Mapping[str, Any], part: str, names: str) -> dict[str, Any] | None:
    values = record.get(part)
    if values is None:
        return None
    personal = set(record.get(names) or ())
    return {name: value for name, value in values.items() if name not in personal}


def table_of(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Rows of `row_of` as a table."""
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


def select_of_lines(relation: str, more: Mapping[str, str] | None = None) -> str:
    """SQL that makes the columns, and `more` of them, of a relation with one column `line`: records as JSON."""
    made = {column.name: _of_line(column) for column in COLUMNS} | dict(more or {})
    parts = ", ".join(f'{expression} AS "{name}"' for name, expression in made.items())
    return f"SELECT {parts} FROM {relation}"  # noqa: S608  # the relation's name is ours


def _cell(column: Column, record: Mapping[str, Any]) -> Any:
    match column.name:
        case "id":
            return None if record.get("id") == _NO_ID else record.get("id")
        case "time":
            return None if record.get("at") is None else record["at"] // 1000
        case "input":
            return _text(plain_input(record))
        case "features":
            return _text(plain_features(record))
        case "personal":
            return any(key in record for key in _PERSONAL)
        case "record":
            return _text(dict(record)) if record["kind"] in _WHOLE else None
    value = record.get(column.name)
    if column.type == "JSON":
        return _text(value)
    # JSON has no words for numbers that are not finite, so a record has texts there.
    return float(value) if column.type == "DOUBLE" and value is not None else value


def _of_line(column: Column) -> str:
    path = f"'$.{column.name}'"
    match column.name:
        case "id":
            return f"nullif(line->>{path}, '{_NO_ID}')"
        case "time":
            return "make_timestamp((line->>'$.at')::BIGINT // 1000) AT TIME ZONE 'UTC'"
        case "personal":
            return " OR ".join(f"json_exists(line, '$.{key}')" for key in _PERSONAL)
        case "record":
            return f"CASE WHEN line->>'$.kind' IN {_WHOLE} THEN line::JSON END"
    if column.type == "JSON":
        return f"nullif(line->{path}, 'null'::JSON)"
    return f"line->>{path}" if column.type == "VARCHAR" else f"(line->>{path})::{column.type}"


def _text(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
