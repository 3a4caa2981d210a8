"""The columns of records, in SQL and Parquet; docs/reference/decision-records.md lists them.

One schema for all kinds of records; columns that a kind does not have are null. Nested values are JSON text. Personal
data is only in `payload`, encrypted. Must not know files.
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
    """A column; its name is the key in a record's JSON, unless it is derived."""

    name: str
    type: Type
    about: str


COLUMNS = (
    Column("seq", "BIGINT", "number in the log, without gaps"),
    Column("segment", "BIGINT", "its segment"),
    Column("frame", "BIGINT", "its frame in the segment, from 0"),
    Column("leaf", "VARCHAR", "its hash, hex: what `verify` proves"),
    Column("kind", "VARCHAR", "decision, failed, shadow, undelivered, outcome, override, …"),
    Column("id", "VARCHAR", "the decision's id; null if it is about none"),
    Column("at", "BIGINT", "when, in ns since 1970"),
    Column("time", "TIMESTAMPTZ", "the same, to the µs"),
    Column("mono", "BIGINT", "the node's monotonic time in ns; comparable within one boot"),
    Column("decision", "VARCHAR", "the decision's name"),
    Column("document", "VARCHAR", "digest of the document that decided"),
    Column("policy", "VARCHAR", "digest of its policy"),
    Column("schema", "VARCHAR", "digest of its input's schema"),
    Column("runtime", "VARCHAR", "digest of the fingerprint: what makes runs differ by machine"),
    Column("models", "JSON", "models that took part: [{model, version, digest}]"),
    Column("protocol", "VARCHAR", "protocol of the request"),
    Column("caller", "VARCHAR", "the caller, if known"),
    Column("key", "VARCHAR", "idempotency key"),
    Column("trace", "VARCHAR", "trace id"),
    Column("single", "BOOLEAN", "a request of one row"),
    Column("variant", "VARCHAR", "the variant that decided"),
    Column("route", "VARCHAR", "champion, split, fallback, rules, declared or kill_switch"),
    Column("score", "DOUBLE", "the score that the policy used"),
    Column("outcome", "VARCHAR", "the outcome; for an override: the new one"),
    Column("band", "VARCHAR", "the band of the score"),
    Column("rules", "JSON", "rules that fired, by their positions in the policy, from 0"),
    Column("reasons", "JSON", "[{code, field, contribution}], the most important first"),
    Column("explain", "BOOLEAN", "reasons were requested"),
    Column("remedy", "JSON", "{cause, stage, used}, if a remedy decided"),
    Column("features", "JSON", "{name: {value, origin, age_ms}}, as used"),
    Column("scores", "JSON", "{model: score} of every model that ran"),
    Column("outputs", "JSON", "{model: {output: [numbers]}}"),
    Column("batch", "JSON", "[{model, rows, position}]: its runs"),
    Column("timings", "JSON", "{stage: ns}"),
    Column("input", "JSON", "the input, without personal values"),
    Column("input_blob", "JSON", "digest and length of a long input, stored beside the log; `show` prints it"),
    Column("subject", "VARCHAR", "token of the subject, if there are personal values"),
    Column("personal", "BOOLEAN", "there are personal values, stored encrypted"),
    Column("sampled", "BOOLEAN", "false: stored without input, features and outputs"),
    Column("masked", "JSON", "names of fields whose values are left out"),
    Column("fault", "JSON", "failed: kind, stage and text"),
    Column("truth", "JSON", "outcome: what turned out to be true"),
    Column("when", "BIGINT", "outcome: time of the truth, in ns since 1970"),
    Column("source", "VARCHAR", "outcome: source of the truth"),
    Column("by", "VARCHAR", "who overrode, erased, held or released"),
    Column("why", "VARCHAR", "the reason; of an erasure only with --reveal"),
    Column("name", "VARCHAR", "hold and release: the hold's name"),
    Column("of", "VARCHAR", "shadow: variant or policy"),
    Column("agrees", "BOOLEAN", "shadow: it has the decision's outcome"),
    Column("record", "JSON", "other kinds with more keys: the whole record"),
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
    """A record's columns in Parquet; `proof` has the columns of `PROOF`, which come from the log."""
    cells = {column.name: _cell(column, record) for column in COLUMNS if column.name not in PROOF}
    return {**{name: proof[name] for name in PROOF}, **cells}


def plain_input(record: Mapping[str, Any]) -> dict[str, Any] | None:
    """The input without personal data, even if it was decrypted."""
    return _plain(record, "input", "personal_fields")


def plain_features(record: Mapping[str, Any]) -> dict[str, Any] | None:
    """The features without those computed from personal data."""
    return _plain(record, "features", "personal_features")


def _plain(record: Mapping[str, Any], part: str, names: str) -> dict[str, Any] | None:
    values = record.get(part)
    if values is None:
        return None
    personal = set(record.get(names) or ())
    return {name: value for name, value in values.items() if name not in personal}


def table_of(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Build a table from rows of `row_of`."""
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


def select_of_lines(relation: str, more: Mapping[str, str] | None = None) -> str:
    """SQL that extracts the columns, and `more`, from a relation with one column `line`: records as JSON."""
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
    # JSON has no non-finite numbers, so a record has text there.
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
