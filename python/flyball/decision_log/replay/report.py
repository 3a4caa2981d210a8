"""Reports of replays and trials: a JSON document for machines, and text lines made from it.

Must not know terminals or how figures are computed.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from flyball.decision_log.replay.compare import Class

if TYPE_CHECKING:
    from flyball.decision_log.replay.candidate import Trial
    from flyball.decision_log.replay.flips import Figures
    from flyball.decision_log.replay.replay import Replay
    from flyball.decision_log.replay.what_if import WhatIf
    from flyball.statistics.intervals import Rate

    Json = dict[str, Any]

_SHOWN_MAX = 10


def replay_document(found: Replay, tolerance: float) -> Json:
    """The JSON document of a replay."""
    return {
        "decisions": found.rows,
        "classes": {cls.value: found.counts[cls] for cls in Class},
        "cannot": dict(found.reasons.most_common()),
        "tolerance": tolerance,
        "runtime_differences": dict(found.runtimes.most_common()),
        "scores_moved_under": dict(found.moved.most_common()),
        "batching_off": found.unbatched,
        "not_bit_exact": [
            {
                "id": item.id,
                "seq": item.seq,
                "decision": item.decision,
                "class": item.compared.cls.value,
                "notes": list(item.compared.notes),
                "batch": item.batch,
            }
            for item in found.examples
        ],
        "left_off": found.rows - found.counts[Class.BIT_EXACT] - len(found.examples),
    }


def replay_lines(document: Json) -> list[str]:
    """Text of a replay: counts by class, runtime differences, and the first different decisions."""
    rows = document["decisions"]
    lines = [
        f"  {name:<18} {count:>10,}   {count / max(rows, 1):7.2%}"
        for name, count in document["classes"].items()
        if count or name == Class.BIT_EXACT
    ]
    lines += [f"  cannot: {why}   ({count:,})" for why, count in document["cannot"].items()][:_SHOWN_MAX]
    differences = document["runtime_differences"]
    lines.append("same runtime as recorded" if not differences else "different runtime than recorded:")
    lines += [f"  {what}   ({count:,})" for what, count in differences.items()]
    if document["scores_moved_under"]:
        lines.append("scores moved with these differences: " + "; ".join(document["scores_moved_under"]))
    lines += [f"{name} runs unbatched, as recorded: {why}" for name, why in document["batching_off"].items()]
    shown = [item for item in document["not_bit_exact"] if item["class"] == Class.DIFFERS][:_SHOWN_MAX]
    for item in shown:
        runs = ", ".join(f"{run['model']} in a batch of {run['rows']}" for run in item["batch"])
        lines.append(f"{item['id']}   {'; '.join(item['notes'])}" + (f"   ({runs})" if runs else ""))
    return lines


def what_if_document(found: WhatIf) -> Json:
    """The JSON document of a what-if."""
    record, decided = found.record, found.decided
    return {
        "id": record["id"],
        "decision": record["decision"],
        "set": found.changes,
        "before": {"class": found.before.cls.value, "notes": list(found.before.notes)},
        "was": {key: record.get(key) for key in ("outcome", "band", "score", "reasons")},
        "now": {
            "outcome": decided.outcome,
            "band": decided.band,
            "score": decided.score,
            "reasons": [asdict(reason) for reason in decided.reasons],
        },
        "models": [{"model": item.model, "digest": item.digest} for item in decided.models],
        "notes": found.notes,
    }


def what_if_lines(document: Json, others: list[str]) -> list[str]:
    """Text of a what-if: outcome, reasons, notes; `others` are the runtime differences."""
    models = ", ".join(f"{item['digest'][:15]}…" for item in document["models"]) or "none"
    # `replay` reports another flyball version on the same machine; here only results count.
    elsewhere = [what for what in others if what.split(" ")[0] not in ("flyball", "commit")]
    machine = f"on another machine class ({'; '.join(elsewhere)})" if elsewhere else "on the same machine class"
    before = document["before"]
    replayed = before["class"] if not before["notes"] else f"{before['class']} ({'; '.join(before['notes'])})"
    change = f"{_outcome_text(document['was'])} → {_outcome_text(document['now'])}"
    lines = [f"{change}     model {models} {machine}, {replayed} before the change"]
    lines += [f"  {reason['code']}" + _moved(reason) for reason in document["now"]["reasons"]]
    return [*lines, *(f"  {note}" for note in document["notes"])]


def trial_document(trial: Trial, found: Figures, truths: int) -> Json:
    """The JSON document of a candidate's trial."""
    return {
        "decision": trial.name,
        "candidate": trial.candidate,
        "decisions": found.rows,
        "left_out": dict(trial.left_out.most_common()),
        "level": found.level,
        "flips": asdict(found.flips),
        "matrix": found.matrix,
        "outcomes": [asdict(share) for share in found.shares],
        "by": list(trial.fields),
        "segments": [asdict(segment) for segment in found.segments],
        "score_shift": None if found.shift is None else asdict(found.shift),
        "truths": truths,
        "errors": [asdict(error) for error in found.errors],
    }


def outcome_text(outcome: str, score: float | None) -> str:
    """An outcome with its score, if any."""
    return outcome if score is None else f"{outcome} ({score:.3f})"


def percent(rate: Rate | Json, *, signed: bool = False) -> str:
    """A rate with its interval, in percent."""
    values = rate if isinstance(rate, dict) else asdict(rate)
    if values["value"] is None:
        return "–"
    sign = "+" if signed else ""
    return f"{values['value'] * 100:{sign}.2f} % ({values['low'] * 100:{sign}.2f} to {values['high'] * 100:{sign}.2f})"


def _outcome_text(document: Json) -> str:
    score = document["score"]
    return outcome_text(document["outcome"], score if isinstance(score, float) else None)


def _moved(reason: Json) -> str:
    contribution = reason.get("contribution")
    text = f" {reason['text']}" if reason.get("text") else ""
    return text if contribution is None else f"{text}   {reason['field']} {contribution:+.3f}"
