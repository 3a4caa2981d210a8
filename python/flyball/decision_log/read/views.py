"""SQL views over the whole log: Parquet and segments not yet compacted.

`records` has everything; `decisions`, `failures`, `outcomes`, `overrides`, `shadows` and `events` are parts of it.
`decisions` includes later annotations. Personal data only with `reveal`. Must not know the command line.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from flyball.decision_log.read.filters import quoted
from flyball.errors import EvidenceError, needing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flyball.native.journal import JournalLog

_CHUNK = 512  # lines; DuckDB reads each once per column, and 2,048 of a few kilobytes take a gigabyte
_MEMORY = "1GB"  # beyond it DuckDB spills to a temporary folder
REVEALED = "revealed"

# The reason of an erasure is encrypted, so only revealed values have it.
_REASON = f"CASE WHEN kind = 'erased' THEN {REVEALED}->>'$.why' ELSE why END"

# Columns of decisions beside those of records: (name, type, meaning).
JOINED = (
    ("outcomes", "BIGINT", "number of reported truths"),
    ("truth", "JSON", "the last reported truth"),
    ("truth_time", "TIMESTAMPTZ", "when it was reported"),
    ("truth_source", "VARCHAR", "its source"),
    ("truth_caller", "VARCHAR", "the authenticated caller that reported it"),
    ("overrides", "BIGINT", "number of overrides"),
    ("override_outcome", "VARCHAR", "outcome of the last override"),
    ("override_by", "VARCHAR", "its author, as the caller said"),
    ("override_caller", "VARCHAR", "the authenticated caller of it"),
    ("override_why", "VARCHAR", "its reason"),
    ("final", "VARCHAR", "the outcome that counts: the last override's, else its own"),
    ("delivered", "BOOLEAN", "false: the client had disconnected"),
    ("erased", "BOOLEAN", "its subject was erased"),
)
_ANNOTATED = ("truth", "when", "source", "by", "why", "name", "of", "agrees", "fault", "record")
_DECISIONS = f"""
SELECT r.* EXCLUDE ({", ".join(f'"{name}"' for name in _ANNOTATED)}),
  coalesce(o.outcomes, 0) AS outcomes, o.last.truth AS truth, o.last."time" AS truth_time,
  o.last.source AS truth_source, o.last.caller AS truth_caller,
  coalesce(v.overrides, 0) AS overrides, v.last.outcome AS override_outcome,
  v.last."by" AS override_by, v.last.caller AS override_caller, v.last.why AS override_why,
  coalesce(v.last.outcome, r.outcome) AS final,
  NOT EXISTS (SELECT 1 FROM records u WHERE u.kind = 'undelivered' AND u.id = r.id) AS delivered,
  r.personal AND EXISTS (
    SELECT 1 FROM records e WHERE e.kind = 'erased' AND e.subject = r.subject AND e.seq > r.seq) AS erased
FROM records r
LEFT JOIN (SELECT id, decision, count(*) AS outcomes,
    arg_max({{'truth': truth, 'time': "time", 'source': source, 'caller': caller}}, seq) AS last
    FROM records WHERE kind = 'outcome' GROUP BY id, decision) o ON o.id = r.id AND o.decision = r.decision
LEFT JOIN (SELECT id, decision, count(*) AS overrides,
    arg_max({{'outcome': outcome, 'by': "by", 'why': why, 'caller': caller}}, seq) AS last
    FROM records WHERE kind = 'override' GROUP BY id, decision) v ON v.id = r.id AND v.decision = r.decision
WHERE r.kind = 'decision'
"""  # noqa: S608  # no external input
PARTS = {
    "failures": "SELECT * FROM records WHERE kind = 'failed'",
    "outcomes": 'SELECT seq, id, "at", "time", decision, truth, "when", source, caller FROM records '
    "WHERE kind = 'outcome'",
    "overrides": 'SELECT seq, id, "at", "time", decision, outcome, "by", why, caller FROM records WHERE kind = \'override\'',
    "shadows": 'SELECT seq, id, "at", "time", decision, "of", variant, score, outcome, agrees FROM records '
    "WHERE kind = 'shadow'",
    "events": 'SELECT seq, segment, frame, kind, id, "at", "time", decision, name, "by", why, caller, subject, record '
    "FROM records WHERE kind NOT IN ('decision', 'failed', 'outcome', 'override', 'shadow')",
}
VIEWS = ("records", "decisions", *PARTS)


@contextmanager
def opened(log: JournalLog, *, since_ns: int | None = None, reveal: bool = False) -> Iterator[Any]:
    """Open a DuckDB connection with the views. Records older than `since_ns` may be missing.

    With `reveal`, records have an extra column of decrypted personal data; the log must be opened with `reveal`, too.
    """
    with tempfile.TemporaryDirectory(prefix="flyball-query-") as folder:
        connection = _connect(folder)
        try:
            _records(connection, log, since_ns, reveal)
            connection.execute(f"CREATE VIEW decisions AS {_DECISIONS}")
            for name, select in PARTS.items():
                connection.execute(f"CREATE VIEW {name} AS {select}")
            yield connection
        finally:
            connection.close()


def _connect(folder: str) -> Any:
    with needing("queries need DuckDB and pyarrow", extra="journal"):
        import duckdb
        import pyarrow  # noqa: F401  # DuckDB exchanges rows through it
    connection = duckdb.connect(config={"autoinstall_known_extensions": False, "temp_directory": folder})
    connection.execute(f"SET memory_limit = '{_MEMORY}'")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _records(connection: Any, log: JournalLog, since_ns: int | None, reveal: bool) -> None:
    """Create the base view: segments as a table, Parquet files in place."""
    import pyarrow

    from flyball.decision_log.read.columns import select_of_lines

    of_lines = select_of_lines("lines", {REVEALED: f"line->'$.{REVEALED}'"} if reveal else {})
    connection.register("lines", pyarrow.table({"line": pyarrow.array([], pyarrow.string())}))
    connection.execute(f"CREATE TABLE uncompacted AS {of_lines}")
    compacted = [(0, _uncompacted_from(log))]  # read once: each record comes from one source
    from_seq, end = max(compacted[0][1], log.first_since(since_ns)), False
    while not end:
        options = {"since_ns": since_ns, "durable_only": False}
        try:
            lines, from_seq, end = log.chunk(from_seq, _CHUNK, options)
        except EvidenceError as error:
            moved_to = _uncompacted_from(log)
            if error.code != "journal_moved" or moved_to <= from_seq:
                raise
            compacted.append((from_seq, moved_to))
            from_seq = moved_to
            continue
        texts = [line.decode() for line in lines.splitlines()]  # text may contain what `str.splitlines` takes for a line end
        if reveal:
            texts = [_revealed(text) for text in texts]
        connection.register("lines", pyarrow.table({"line": pyarrow.array(texts, pyarrow.string())}))
        connection.execute(f"INSERT INTO uncompacted {of_lines}")
    connection.unregister("lines")
    parquet = _parquet(connection, log, reveal, compacted)
    parts = " UNION ALL BY NAME ".join(["FROM uncompacted", *([parquet] if parquet else [])])
    names = f"* REPLACE ({_REASON} AS why)" if reveal else "*"
    connection.execute(f"CREATE VIEW records AS SELECT {names} FROM ({parts})")  # noqa: S608


def _uncompacted_from(log: JournalLog) -> int:
    from flyball.decision_log.retention.retired import read_retired

    return max((entry.next_seq for entry in read_retired(log.folder).values()), default=0)


def _parquet(connection: Any, log: JournalLog, reveal: bool, seqs: list[tuple[int, int]]) -> str | None:
    """SQL for compacted records; None if there are none."""
    files = log.folder / "parquet"
    if not any(files.glob("day=*/decision=*/*.parquet")):
        return None
    from flyball.decision_log.read.columns import COLUMNS

    names = ", ".join(_of_parquet(column.name, column.type) for column in COLUMNS)
    if reveal:
        connection.create_function("revealed_of", lambda payload: _revealed_of(log, payload), ["BLOB"], "JSON")
        names += ", CASE WHEN personal THEN revealed_of(payload) END AS revealed"
    pattern = quoted(str(files / "day=*" / "decision=*" / "*.parquet"))
    # A segment counts as compacted once it is listed: until then its records are in both.
    listed = " OR ".join(f"seq >= {first} AND seq < {end}" for first, end in seqs)
    files_read = f"read_parquet({pattern}, hive_partitioning = false, union_by_name = true)"
    return f"SELECT {names} FROM {files_read} WHERE {listed}"  # noqa: S608


def _of_parquet(name: str, kind: str) -> str:
    if name == "leaf":
        return "lower(hex(leaf)) AS leaf"
    return f'"{name}"::{kind} AS "{name}"'


def _revealed_of(log: JournalLog, payload: bytes) -> str | None:
    revealed = json.loads(_revealed(json.dumps(log.render(payload)))).get(REVEALED)
    return None if revealed is None else json.dumps(revealed)


def _revealed(line: str) -> str:
    """Move personal data in a record's JSON to `revealed`; "erased" if the key is deleted."""
    record = json.loads(line)
    fields, features = record.get("personal_fields") or (), record.get("personal_features") or ()
    values = record.get("personal_values") or ()
    if fields or features or values:
        sent, found = record.get("input") or {}, record.get("features") or {}
        revealed = {name: record.pop(name, None) for name in values}
        revealed |= {name: sent.pop(name, None) for name in fields}
        record[REVEALED] = revealed | {name: found.pop(name, {}).get("value") for name in features}
    elif "personal" in record:
        record[REVEALED] = record["personal"]
    return json.dumps(record)
