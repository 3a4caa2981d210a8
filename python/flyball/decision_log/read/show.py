"""A decision as a person reads it: what, by what, why, how long, whether it is proven, what was told later.

Gives lines of styled text; the command line prints them. Must not know files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.text import Text

from flyball.decision_log.proof import checkpoints
from flyball.decision_log.read.records import Decided, Failed, History

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from flyball.decision_log.read.records import Erasure, Feature, Outcome, Override, Shadowed
    from flyball.native.journal import JournalLog
    from flyball.native.journal_documents import Proof

_STAGES = ("parse", "route", "admit", "features", "tensor", "queue", "infer", "policy", "record", "respond")
_SHORT = 11  # "sha256:" and four digits


@dataclass(frozen=True, slots=True)
class Proven:
    """Where a record lies, whether its proof holds, and since when a signature covers it."""

    segment: int
    frame: int
    findings: list[str]
    signed: str | None
    sealed: bool


def prove(log: JournalLog, record: Decided | Failed) -> Proven:
    """The proof of one record, checked."""
    proof: Proof = log.prove(record.seq)
    over = checkpoints.first_over(log, proof.segment, proof.index)
    signed = None if over is None else f"{over.time:%Y-%m-%d %H:%M:%S}"
    return Proven(proof.segment, proof.index, proof.findings, signed, proof.checkpoint_path is not None)


def lines(
    history: History,
    proven: Proven,
    texts: Mapping[str, str],
    codes: Sequence[str | None] = (),
    erased: Erasure | None = None,
) -> Iterator[Text]:
    """The whole page, line by line: with texts by reason code, and the code of each rule of the policy, in its order."""
    record = history.decision
    yield _title(record)
    yield _by(record)
    if isinstance(record, Decided):
        yield from _judged(record, texts, codes)
    yield from _known(record, erased)
    if isinstance(record, Decided) and record.timings:
        yield _took(record)
    for shadow in history.shadows:
        yield _shadow(shadow)
    if history.undelivered:
        yield Text("  not delivered: the client had hung up")
    yield proof_line(proven)
    yield from map(_override, history.overrides)
    yield from map(_outcome, history.outcomes)
    if isinstance(record, Decided):
        yield _next(record)


def _title(record: Decided | Failed) -> Text:
    when = record.time.replace("T", " ").rstrip("Z")[:23]
    head = f"{record.id}   {record.decision}   {when}   "
    if isinstance(record, Failed):
        kind, stage, *text = record.fault if isinstance(record.fault, list) else record.fault.values()
        return Text.assemble(head, (f"failed at {stage}: {kind}", "bold red"), f"   {' '.join(text)}".rstrip())
    score = "" if record.score is None else f" ({record.score:.3f})"
    return Text.assemble(head, (f"{record.outcome}{score}", "bold"))


def _by(record: Decided | Failed) -> Text:
    models = [f"model {item.model} v{item.version} {_short(item.digest)}" for item in record.models]
    parts = [*models, f"policy {_short(record.policy)}", f"schema {_short(record.schema_digest)}"]
    if isinstance(record, Decided):
        way = f"route {record.route}" + (f" ({record.variant})" if record.variant not in (None, record.route) else "")
        parts.append(way)
    if record.caller:
        parts.append(f"caller {record.caller}")
    return Text("  " + "   ".join(parts))


def _judged(record: Decided, texts: Mapping[str, str], codes: Sequence[str | None]) -> Iterator[Text]:
    if record.remedy is not None:
        yield Text(f"  remedy: {record.remedy.used}, for {record.remedy.cause} at {record.remedy.stage}", style="yellow")
    told = [f"{reason.code} {texts.get(reason.code, '')}".rstrip() for reason in record.reasons]
    width = max(map(len, told), default=0)
    for reason, text in zip(record.reasons, told, strict=True):
        yield Text(f"  {text:<{width}}   {_grounds(reason.field, reason.contribution, record)}".rstrip())
    if record.rules:
        yield Text(f"  rules that fired: {', '.join(_rule(place, codes) for place in record.rules)}")
    if not record.sampled:
        yield Text("  not sampled: input, features and outputs were not kept", style="dim")


def _rule(place: Any, codes: Sequence[str | None]) -> str:
    """A rule as `flyball plan` numbers it, from 1, with its code where it has one; records count from 0."""
    if not str(place).isdecimal():
        return str(place)
    number = int(place)
    code = codes[number] if number < len(codes) else None
    return f"rule {number + 1}" + (f" ({code})" if code else "")


def _grounds(field: str | None, contribution: float | None, record: Decided) -> str:
    """What a reason stands on: the field's value, where it came from, and what it added."""
    if field is None:
        return ""
    added = "" if contribution is None else f", {contribution:+.2f}"
    if field in record.features:
        return f"{_feature(field, record.features[field])}{added}"
    value = (record.input or {}).get(field, _hidden(record))
    return f"{field} = {_value(value)}{added}"


def _known(record: Decided | Failed, erased: Erasure | None) -> Iterator[Text]:
    if record.features:
        yield Text("  features  " + " · ".join(_feature(name, fact) for name, fact in record.features.items()))
    if record.input:
        yield Text("  input     " + " · ".join(f"{name} = {_value(value)}" for name, value in record.input.items()))
    if record.input_blob is not None and set(record.input or ()) <= set(record.personal_fields):
        digest, length = record.input_blob
        yield Text(f"  input     {length:,} bytes that were kept beside the log cannot be read: {digest}", style="yellow")
    if record.personal == "sealed":
        yield Text("  personal  sealed; see it with --reveal", style="dim")
    elif record.personal == "erased":
        yield Text(f"  personal  erased{_erased(erased)}", style="yellow")
    masked = getattr(record, "masked", [])
    if masked:
        yield Text(f"  masked    {', '.join(masked)}", style="dim")


def _erased(told: Erasure | None) -> str:
    """When, by whom and why; the reason is sealed, too."""
    if told is None:
        return ""
    why = "; see why with --reveal" if told.why is None else f": {told.why}"
    return f" {_when(told.time)}, by {told.by}{_authenticated(told.caller)}{why}"


def _took(record: Decided) -> Text:
    spent = {stage: record.timings.get(stage) for stage in (*_STAGES, *record.timings)}  # JSON has them in no order
    took = [(stage, ns / 1000) for stage, ns in spent.items() if ns is not None]
    parts = [f"{stage} {us:.0f}" + (" µs" if place == 0 else "") for place, (stage, us) in enumerate(took)]
    total = sum(us for _, us in took)
    runs = [f"batch {run.position + 1} of {run.rows}" for run in record.batch if run.rows > 1]
    batch = f"   ({', '.join(runs)})" if runs else ""
    return Text(f"  {' · '.join(parts)}   total {total:.0f} µs{batch}")


def _shadow(shadow: Shadowed) -> Text:
    score = "" if shadow.score is None else f" ({shadow.score:.3f})"
    agrees = "agrees" if shadow.agrees else "does not agree"
    return Text(f"  shadow {shadow.variant or shadow.of}: {shadow.outcome or '–'}{score}, {agrees}")


def proof_line(proven: Proven) -> Text:
    """Where a record lies, and what that is worth."""
    place = f"segment {proven.segment:06}, frame {proven.frame}"
    if proven.findings:
        return Text(f"  proof: DOES NOT HOLD: {'; '.join(proven.findings)} ({place})", style="bold red")
    if proven.signed is None:
        return Text(f"  proof: {place}, in the chain; no checkpoint covers it yet")
    what = "root" if proven.sealed else "chain"
    return Text(f"  proof: {place}, {what} signed {proven.signed}")


def _override(told: Override) -> Text:
    return Text.assemble(
        f"  overridden {_when(told.time)}: ",
        (told.outcome, "bold"),
        f", by {told.by}{_authenticated(told.caller)}: {told.why}",
    )


def _outcome(told: Outcome) -> Text:
    source = (f" ({told.source})" if told.source else "") + _authenticated(told.caller)
    return Text.assemble(f"  turned out {_when(told.time)}: ", (_value(told.truth), "bold"), source)


def _authenticated(caller: str | None) -> str:
    """Who the server knew it came from, beside the name that was given."""
    return " (not authenticated)" if caller is None else f" (caller {caller})"


def _next(record: Decided) -> Text:
    changed = next((reason.field for reason in record.reasons if reason.field), None)
    what_if = f"      What if:  … --set {changed}=VALUE" if changed else ""
    return Text(f"Replay:  flyball decisions replay {record.id}{what_if}", style="dim")


def _feature(name: str, fact: Feature) -> str:
    age = "" if fact.age_ms is None else f", age {_age(fact.age_ms)}"
    return f"{name} = {_value(fact.value)} ({fact.origin}{age})"


def _age(ms: float) -> str:
    if ms < 10_000:
        return f"{ms:.0f} ms"
    return f"{ms / 1000:.0f} s" if ms < 600_000 else f"{ms / 60_000:.0f} min"


def _value(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.2f}" if isinstance(value, float) and abs(value) >= 100 else str(value)


def _hidden(record: Decided) -> str | None:
    """What stands for a value that is not in the input: it is personal, or was not given. A sealed record cannot tell."""
    return f"{record.personal} or not given" if record.personal else None


def _when(time: str) -> str:
    return time.replace("T", " ")[:19]


def _short(digest: str | None) -> str:
    return "–" if digest is None else f"{digest[:_SHORT]}…"
