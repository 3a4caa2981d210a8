"""Topic: erasing a subject. The log stays intact, and the personal data is unreadable everywhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from bench.claims.bars import none
from bench.claims.claim import Claim, Figure, Raw, Topic
from bench.claims.decisions.asking import ask_all, one_row
from bench.claims.figures import wrong_of
from bench.claims.journal import specs
from bench.claims.journal.commands import decisions

if TYPE_CHECKING:
    from pathlib import Path

    from bench.claims.tails.stand import Stand

NAME, ROWS, ACCOUNTS = "pay", 2_000, 97
ERASED, _OTHER = "account-7", "another"


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
    _keep(stand, journal, mine, other, before)


def _keep(stand: Stand, journal: Path, mine: set[str], other: str, before: str) -> None:
    verified = decisions(journal, "verify", fails=True)
    stand.keep("verify", {"frames": verified["frames"], "findings": verified["findings"][:10]})
    now = sorted({_personal(journal, one) for one in sorted(mine)[:3]})
    stand.keep("show", {"before": before, "now": now, _OTHER: _personal(journal, other)})
    classes = _classes(decisions(journal, "replay", "--decision", NAME, fails=True))
    stand.keep("replay", {"mine": len(mine), "classes": {name: count for name, count in classes.items() if count}})
    sql = "SELECT id, input, revealed FROM decisions"
    found = {row["id"]: row for row in decisions(journal, "query", sql, "--reveal")}
    wrong = [one for one in mine if found[one]["revealed"] != "erased" or ERASED in json.dumps(found[one])]
    stand.keep("Parquet", {"total": len(mine), "wrong": len(wrong), "examples": wrong[:10]})


def _personal(journal: Path, decision: str) -> str:
    """What `show` has of what is personal: erased, sealed, or opened."""
    (record,) = (one for one in decisions(journal, "show", decision, "--reveal")["records"] if one["kind"] == "decision")
    return str(record.get("personal", "opened"))


def _classes(told: Any) -> dict[str, int]:
    return {name: int(count) for name, count in told["classes"].items()}


def _findings(raw: Raw) -> Figure:
    found = raw["verify"]
    return Figure(len(found["findings"]), f"{found['frames']:,} records", "" if found["frames"] else "no records")


def _not_erased(raw: Raw) -> Figure:
    found = raw["show"]
    wrong = [one for one in found["now"] if one != "erased"]
    fault = "" if "erased" not in (found["before"], found[_OTHER]) else "it was erased before, or another's is too"
    return Figure(len(wrong), f"before {found['before']}, another's {found[_OTHER]}", fault)


def _replayed_otherwise(raw: Raw) -> Figure:
    classes, mine = raw["replay"]["classes"], raw["replay"]["mine"]
    wanted = {"erased": mine, "bit-exact": ROWS - mine}
    wrong = sum(abs(classes.get(name, 0) - wanted.get(name, 0)) for name in {*classes, *wanted})
    return Figure(wrong, ", ".join(f"{count:,} {name}" for name, count in classes.items()))


TOPIC = Topic(
    "erase",
    measure,
    subject=f"one subject of {ACCOUNTS} is erased",
    sample=f"{ROWS:,} decisions, a part of them compacted",
    claims=(
        Claim("verify", "findings of `verify`", none(), _findings),
        Claim("show", "the subject's decisions that `show` can read", none("another's stay readable"), _not_erased),
        Claim("replay", "replays other than erased for the subject, bit-exact for others", none(), _replayed_otherwise),
        Claim("parquet", "the subject's decisions that Parquet has not erased", none(), wrong_of("Parquet")),
    ),
)
