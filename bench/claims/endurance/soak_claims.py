"""What the soak promises, from the values that it kept: answers, trouble, counts, memory, the log. Must not measure."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from bench.claims.bars import at_most, none, times
from bench.claims.claim import Claim, Figure, Topic
from bench.claims.endurance.soak import ASKED, MEMORY_APART_MAX, REVOKED_S_MAX, SOAK_S, measure

if TYPE_CHECKING:
    from bench.claims.claim import Raw

_TROUBLE = {
    "reloads": "reloads",
    "revocations": "revocations",
    "erased": "erasures",
    "redis_kills": "kills of Redis",
    "bad_bytes": "starts of bad bytes",
}


def _ended(raw: Raw) -> Figure:
    """Ends of the server, and of a kind of trouble: the soak then shows less than it says."""
    trouble, alive = raw["trouble"], raw["alive"]
    told = ", ".join(f"{trouble[name]} {words}" for name, words in _TROUBLE.items())
    faults = [*trouble["broken"], *(f"no {words}" for name, words in _TROUBLE.items() if not trouble[name])]
    return Figure(int(not alive), told, "; ".join(faults))


def _wrong(raw: Raw) -> Figure:
    answers, load = raw["answers"], raw["answers"]["load"]
    wrong = sum(answers["wrong"].values()) + load["mismatched"] + load["failed"]
    right = sum(answers["right"].values()) + load["answered"]
    unasked = [subject for subject in ASKED if not answers["right"].get(subject)]
    fault = (
        f"no right answer of {unasked[0]}" if unasked else "" if load["answered"] else "no right answer of the plain model"
    )
    return Figure(wrong, f"of {right + wrong:,}" + "".join(f"; {one}" for one in answers["examples"][:1]), fault)


def _uncounted(raw: Raw) -> Figure:
    counts = raw["counts"]
    told = f"{counts['received']:,} received, {counts['ended']:,} answered, refused, failed or abandoned"
    return Figure(abs(counts["received"] - counts["ended"]), told, "" if counts["ended"] else "no request was counted")


def _slow(raw: Raw) -> Figure:
    trouble = raw["trouble"]
    fault = "" if trouble["revocations"] else "nothing was revoked"
    return Figure(len(trouble["slow_revocations"]), f"of {trouble['revocations']}", fault)


def _not_erased(raw: Raw) -> Figure:
    failed = raw["trouble"]["erasures_failed"]
    return Figure(len(failed), f"{raw['trouble']['erased']} recorded" + "".join(f": {one}" for one in failed[:1]))


def _memory(raw: Raw) -> Figure:
    held = raw["memory"]
    fifth = max(len(held) // 5, 1)
    early, late = median(held[fifth : 2 * fifth] or held), median(held[-fifth:])
    return Figure(late / early, f"{early / 1e6:.1f} MB, {late / 1e6:.1f} MB")


def _unrecorded(raw: Raw) -> Figure:
    counts = raw["counts"]
    told = f"{counts['decided']:,} decided, {counts['records']:,} records, {counts['gaps']:,} in gaps"
    return Figure(
        abs(counts["decided"] - counts["records"] - counts["gaps"]), told, "" if counts["decided"] else "none decided"
    )


def _findings(raw: Raw) -> Figure:
    return Figure(len(raw["verified"]["findings"]), f"{raw['verified']['frames']:,} frames")


TOPIC = Topic(
    "soak",
    measure,
    subject="one server under hostile clients, reloads, revocations, erasures and kills of Redis; every answer is checked",
    sample=f"{SOAK_S / 60:.0f} minutes",
    claims=(
        Claim("lives", "ends of the server", none("every kind of trouble happened"), _ended),
        Claim("wrong", "wrong answers", none("every subject answered"), _wrong),
        Claim("requests", "requests that are received and not ended, or the other way round", none(), _uncounted),
        Claim("revoked", f"revocations that took longer than {REVOKED_S_MAX:g} s", none(), _slow),
        Claim("erased", "erasures that are not recorded", none(), _not_erased),
        Claim("memory", "resident memory, last fifth over second", at_most(1 + MEMORY_APART_MAX, times), _memory),
        Claim("recorded", "decisions without a record or a place in a gap", none(), _unrecorded),
        Claim("verify", "findings of `verify`", none(), _findings),
    ),
)
