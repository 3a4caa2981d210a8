"""`flyball features`: fills feature stores and windows, and shows one record."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flyball.cli.option import AsJson, argument, option
from flyball.cli.output import console, printed_as_json
from flyball.cli.progress import progress_on
from flyball.errors import InvalidInputError, NotFoundError, UsageError

if TYPE_CHECKING:
    from collections import Counter

    from flyball.decision.backfill import PastEvent, WindowsToFill
    from flyball.feature_store.target import Target

features = typer.Typer(
    name="features",
    no_args_is_help=True,
    help=(
        "Fill feature stores, and look up records.\n\n"
        "    flyball features push cards.csv --store cards.redb --set cards --key-column card_id"
    ),
)

_Set = Annotated[str, option("The set of records, such as cards.", "--set", metavar="NAME")]
_Store = Annotated[str | None, option("redis://HOST:PORT, or a .redb file.", "--store", metavar="STORE")]
_StoreEnv = Annotated[
    str | None, option("The environment variable with the store's address.", "--store-env", metavar="NAME")
]


@features.command()
def push(
    file: Annotated[Path, argument("Rows: .parquet, .csv or .jsonl.", metavar="FILE")],
    set_name: _Set,
    key_column: Annotated[str, option("The key column.", metavar="COLUMN")],
    store: _Store = None,
    store_env: _StoreEnv = None,
    columns: Annotated[str | None, option("The columns to write; by default all but the key.", metavar="A,B")] = None,
    expire_s: Annotated[int | None, option("Redis only: seconds until a record expires; by default never.", min=1)] = None,
    json: AsJson = False,
) -> None:
    """Write one record for each row of a file.

    In Redis, records are replaced one by one, and none is removed. In a .redb file, the whole set is replaced once all
    rows are written; running servers pick it up.

        flyball features push cards.csv --store cards.redb --set cards --key-column card_id
    """
    from flyball.feature_store.push import push as push_rows

    target = _target(store, store_env)
    if expire_s is not None and target.store is not None:
        raise UsageError("--expire-s is for Redis; a .redb file keeps its set until the next push")
    began = time.monotonic()
    with progress_on(console(stderr=True)) as progress:
        step = progress.begin(f"push {set_name}", 1.0)
        pushed = push_rows(
            file,
            target,
            set_name,
            key_column,
            columns=None if columns is None else [name.strip() for name in columns.split(",")],
            expire_s=expire_s,
            progress=lambda done, total: step.update(done / total, f"{done:,} of {total:,}"),
        )
        step.end(f"{pushed.rows:,} rows in {time.monotonic() - began:.1f} s")
    if printed_as_json({"to": str(target), "set": set_name, "rows": pushed.rows, "bytes": pushed.bytes}, json):
        return
    console().print(f"{pushed.rows:,} records, {pushed.bytes:,} bytes: set {set_name} of {target}", markup=False)


@features.command()
def backfill(
    spec: Annotated[Path, argument("The decision's YAML file.", metavar="SPEC")],
    data: Annotated[Path | None, option("Past events: .parquet, .csv or .jsonl.", metavar="FILE")] = None,
    time_column: Annotated[
        str | None, option("The time column; by default event_time.", "--time-column", metavar="COLUMN")
    ] = None,
    journal: Annotated[
        Path | None, option("Read past events from this journal instead.", "--journal-folder", metavar="DIR")
    ] = None,
    since: Annotated[str | None, option("Start: 2026-03-01T12:00Z, or 2h ago as 2h.", metavar="TIME")] = None,
    until: Annotated[str | None, option("End, exclusive.", metavar="TIME")] = None,
    kek: Annotated[str | None, option("Key that decrypts personal values.", "--journal-kek", metavar="SOURCE")] = None,
    features_folder: Annotated[
        Path | None, option("The server's features folder; stop the server first.", metavar="DIR")
    ] = None,
    json: AsJson = False,
) -> None:
    """Fill the windows of a decision from past events, so that they are warm when its server starts.

    Events are counted in time order, by the serving engine. Events that a window may have counted already are refused,
    so a second run over the same period changes nothing.

        flyball features backfill card.yaml --data payments.parquet --features-folder features
    """
    from collections import Counter

    from flyball.decision.backfill import WindowsToFill, events_of_rows
    from flyball.decision.decision import Decision

    if (data is None) == (journal is None):
        raise UsageError(
            "give either --data or --journal-folder", next_step="--data rows.parquet   or   --journal-folder DIR --since 7d"
        )
    windows, left_out = WindowsToFill(Decision.load(spec).check().compiled), Counter[str]()
    if journal is not None:
        events = _recorded(windows, journal, since, until, kek, left_out)
    else:
        events = events_of_rows(windows, data or Path(), time_column)
    with progress_on(console(stderr=True)) as progress:
        step = progress.begin(f"backfill {windows.decision}", 1.0)
        filled = windows.fill(
            events, features_folder, lambda done, total: step.update(done / total, f"{done:,} of {total:,}")
        )
        step.end(f"{filled.events:,} events")
    first, last = _moment(filled.first_ms), _moment(filled.last_ms)
    counts = {"windows": filled.windows, "events": filled.events, "without_key": filled.without_key}
    period = {"from": first, "to": last}
    if printed_as_json({"decision": windows.decision, **counts, "left_out": left_out, **period}, json):
        return
    out = console()
    out.print(f"{filled.events:,} events, {first} to {last}: {', '.join(filled.windows)}", markup=False)
    if filled.without_key:
        out.print(f"{filled.without_key:,} rows have no key and were not counted", markup=False)
    for why, count in left_out.items():
        out.print(f"{count:,} records left out: {why}", markup=False)


@features.command()
def get(
    key: Annotated[str, argument("The record's key.", metavar="KEY")],
    set_name: _Set,
    store: _Store = None,
    store_env: _StoreEnv = None,
    json: AsJson = False,
) -> None:
    """Show one record as a decision would read it.

    flyball features get c-0007 --store cards.redb --set cards
    """
    from flyball.feature_store.target import get as get_record

    target = _target(store, store_env)
    if target.store is not None and not target.store.exists():
        raise InvalidInputError(
            f"cannot read {target.store}: no such file", next_step="flyball features push FILE --store FILE"
        )
    record = get_record(target, set_name, key)
    if record is None:
        raise NotFoundError(f"set {set_name} of {target} has no key {key!r}", code="key_not_found")
    if printed_as_json(record, json):
        return
    out = console()
    for name, value in record["fields"].items():
        out.print(f"{name:<24} {value!r}", markup=False)
    if "at" in record:
        out.print(f"written {max(0.0, time.time() - record['at'] / 1000):,.0f} s ago", style="dim", markup=False)


def _recorded(
    windows: WindowsToFill, journal: Path, since: str | None, until: str | None, kek: str | None, left_out: Counter[str]
) -> list[PastEvent]:
    from flyball.cli.decisions.options import open_log
    from flyball.decision_log.read.filters import instant
    from flyball.decision_log.read.past_events import events_of_journal

    begin, end = (None if text is None else instant(text) for text in (since, until))
    return events_of_journal(windows, open_log(journal, kek, reveal=True), begin, end, left_out)


def _moment(unix_ms: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _target(address: str | None, variable: str | None) -> Target:
    from flyball.feature_store.target import Target

    if (address is None) == (variable is None):
        raise UsageError(
            "give either --store or --store-env", next_step="--store redis://HOST:PORT   or   --store features.redb"
        )
    return Target.parse(address) if address is not None else Target.of_environment(variable or "")
