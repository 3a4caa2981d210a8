"""Topic: erasing a subject. The log stays intact, and the personal data is unreadable everywhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from bench.claims.decisions.asking import ask_all, one_row
from bench.claims.journal import specs
from bench.claims.journal.commands import decisions

if TYPE_CHECKING:
    from pathlib import Path

    from bench.claims.tails.stand import Stand

NAME, ROWS, ACCOUNTS = "pay", 2_000, 97
ERASED = "account-7"


def measure(stand: Stand) -> None:
    """Decide, compact a part, erase one subject, and ask every reader."""
    folder = stand.folder / "erase"
    folder.mkdir()
    journal = folder / "journal"
    index = specs.snapshot(folder, {NAME: "{durability: sync}"})
    config = specs.configured(folder / "config.json", journal, journal_segment_bytes=1 << 20)
    rows = [one_row(specs.row(number)) for number in range(ROWS)]
    with stand.serve_snapshot(index, more=["--config", str(config)]) as server:
        (answers,) = ask_all(server.url, NAME, [rows])
    mine = {one["id"] for number, one in enumerate(answers) if specs.row(number)["account"] == ERASED}
    other = next(one["id"] for one in answers if one["id"] not in mine)
    decisions(journal, "compact")
    before = _personal(journal, min(mine))
    decisions(journal, "erase", ERASED, "--by", "claims@example.com", "--reason", "a claim")
    _record(stand, journal, mine, other, before)


def _record(stand: Stand, journal: Path, mine: set[str], other: str, before: object) -> None:
    title = f"one subject of {ACCOUNTS} erased, {len(mine)} of {ROWS:,} decisions"
    verified = decisions(journal, "verify", fails=True)
    figure = f"{verified['frames']:,} records, {len(verified['findings'])} findings"
    stand.report.record(f"{title}: verify", figure, "green", holds=verified["findings"] == [])
    shown = [_personal(journal, one) for one in sorted(mine)[:3]]
    figure = f"before {before}, now {sorted(set(map(str, shown)))}, another's {_personal(journal, other)}"
    holds = set(shown) == {"erased"} and before != "erased" and _personal(journal, other) != "erased"
    stand.report.record(f"{title}: show", figure, "erased, and only theirs", holds=holds)
    classes = _classes(decisions(journal, "replay", "--decision", NAME, fails=True))
    figure = ", ".join(f"{count:,} {name}" for name, count in classes.items() if count)
    wanted = {"erased": len(mine), "bit-exact": ROWS - len(mine)}
    holds = {name: count for name, count in classes.items() if count} == wanted
    stand.report.record(f"{title}: replay", figure, f"{len(mine)} erased, the others bit-exact", holds=holds)
    sql = "SELECT id, input, revealed FROM decisions"
    found = {row["id"]: row for row in decisions(journal, "query", sql, "--reveal")}
    wrong = [one for one in mine if found[one]["revealed"] != "erased" or ERASED in json.dumps(found[one])]
    stand.report.record(f"{title}: Parquet", f"{len(mine) - len(wrong)} of {len(mine)} erased", "all", holds=not wrong)
    stand.keep("facts", {"mine": len(mine), "classes": classes, "wrong": wrong[:10]})


def _personal(journal: Path, decision: str) -> str:
    """What `show` has of what is personal: erased, sealed, or opened."""
    (record,) = (one for one in decisions(journal, "show", decision, "--reveal")["records"] if one["kind"] == "decision")
    return str(record.get("personal", "opened"))


def _classes(told: Any) -> dict[str, int]:
    return {name: int(count) for name, count in told["classes"].items()}
