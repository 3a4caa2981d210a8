"""Text view of a decision: outcome, models, reasons, timings, proof and annotations.

Returns styled lines; the command line prints them. Must not know files.
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
    """A record's position, the findings of its proof, and since when a checkpoint covers it."""

    segment: int
    frame: int
    findings: list[str]
    signed: str | None
    sealed: bool


def prove(log: JournalLog, record: Decided | Failed) -> Proven:
    """Verify the proof of one record."""
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
    """All lines of the view; `texts` by reason code, `codes` of the policy's rules in order."""
    record = history.decision
    yield _title(record)
    yield _by(record)
    if isinstance(record, Decided):
        yield from _reasons(record, texts, codes)
    yield from _inputs(record, erased)
    if isinstance(record, Decided) and record.timings:
        yield _took(record)
    for shadow in history.shadows:
        yield _shadow(shadow)
    if history.undelivered:
        yield Text("  not delivered: the client had disconnected")
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
        variant = f" ({record.variant})" if record.variant not in (None, record.route) else ""
        parts.append(f"route {record.route}{variant}")
    if record.caller:
        parts.append(f"caller {record.caller}")
    return Text("  " + "   ".join(parts))


def _reasons(record: Decided, texts: Mapping[str, str], codes: Sequence[str | None]) -> Iterator[Text]:
    if record.remedy is not None:
        yield Text(f"  remedy: {record.remedy.used}, for {record.remedy.cause} at {record.remedy.stage}", style="yellow")
    heads = [f"{reason.code} {texts.get(reason.code, '')}".rstrip() for reason in record.reasons]
    width = max(map(len, heads), default=0)
    for reason, head in zip(record.reasons, heads, strict=True):
        yield Text(f"  {head:<{width}}   {_evidence(reason.field, reason.contribution, record)}".rstrip())
    if record.rules:
        yield Text(f"  rules that fired: {', '.join(_rule(position, codes) for position in record.rules)}")
    if not record.sampled:
        yield Text("  not sampled: input, features and outputs were not recorded", style="dim")


def _rule(position: Any, codes: Sequence[str | None]) -> str:
    """A rule numbered from 1, as in `flyball plan`, with its code if any; records count from 0."""
    if not str(position).isdecimal():
        return str(position)
    number = int(position)
    code = codes[number] if number < len(codes) else None
    return f"rule {number + 1}" + (f" ({code})" if code else "")


def _evidence(field: str | None, contribution: float | None, record: Decided) -> str:
    """A reason's field with its value, origin and contribution."""
    if field is None:
        return ""
    added = "" if contribution is None else f", {contribution:+.2f}"
    if field in record.features:
        return f"{_feature(field, record.features[field])}{added}"
    value = (record.input or {}).get(field, _hidden(record))
    return f"{field} = {_value(value)}{added}"


def _inputs(record: Decided | Failed, erased: Erasure | None) -> Iterator[Text]:
    if record.features:
        yield Text("  features  " + " · ".join(_feature(name, fact) for name, fact in record.features.items()))
    if record.input:
        yield Text("  input     " + " · ".join(f"{name} = {_value(value)}" for name, value in record.input.items()))
    if record.input_blob is not None and set(record.input or ()) <= set(record.personal_fields):
        digest, length = record.input_blob
        yield Text(f"  input     its {length:,} bytes, stored beside the log, cannot be read: {digest}", style="yellow")
    if record.personal == "sealed":
        yield Text("  personal  encrypted; show it with --reveal", style="dim")
    elif record.personal == "erased":
        yield Text(f"  personal  erased{_erased(erased)}", style="yellow")
    masked = getattr(record, "masked", [])
    if masked:
        yield Text(f"  masked    {', '.join(masked)}", style="dim")


def _erased(erasure: Erasure | None) -> str:
    """When, by whom and why; the reason is encrypted, too."""
    if erasure is None:
        return ""
    why = "; show the reason with --reveal" if erasure.why is None else f": {erasure.why}"
    return f" {_when(erasure.time)}, by {erasure.by}{_authenticated(erasure.caller)}{why}"


def _took(record: Decided) -> Text:
    spent = {stage: record.timings.get(stage) for stage in (*_STAGES, *record.timings)}  # JSON objects have no order
    took = [(stage, ns / 1000) for stage, ns in spent.items() if ns is not None]
    parts = [f"{stage} {us:.0f}" + (" µs" if index == 0 else "") for index, (stage, us) in enumerate(took)]
    total = sum(us for _, us in took)
    runs = [f"batch {run.position + 1} of {run.rows}" for run in record.batch if run.rows > 1]
    batch = f"   ({', '.join(runs)})" if runs else ""
    return Text(f"  {' · '.join(parts)}   total {total:.0f} µs{batch}")


def _shadow(shadow: Shadowed) -> Text:
    score = "" if shadow.score is None else f" ({shadow.score:.3f})"
    agrees = "agrees" if shadow.agrees else "disagrees"
    return Text(f"  shadow {shadow.variant or shadow.of}: {shadow.outcome or '–'}{score}, {agrees}")


def proof_line(proven: Proven) -> Text:
    """A record's position, and the state of its proof."""
    position = f"segment {proven.segment:06}, frame {proven.frame}"
    if proven.findings:
        return Text(f"  proof: DOES NOT HOLD: {'; '.join(proven.findings)} ({position})", style="bold red")
    if proven.signed is None:
        return Text(f"  proof: {position}, in the chain; no checkpoint covers it yet")
    signed = "root" if proven.sealed else "chain"
    return Text(f"  proof: {position}, {signed} signed {proven.signed}")


def _override(override: Override) -> Text:
    return Text.assemble(
        f"  overridden {_when(override.time)}: ",
        (override.outcome, "bold"),
        f", by {override.by}{_authenticated(override.caller)}: {override.why}",
    )


def _outcome(outcome: Outcome) -> Text:
    source = (f" ({outcome.source})" if outcome.source else "") + _authenticated(outcome.caller)
    return Text.assemble(f"  true outcome {_when(outcome.time)}: ", (_value(outcome.truth), "bold"), source)


def _authenticated(caller: str | None) -> str:
    """The authenticated caller, beside the given name."""
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
    """A placeholder for a value not in the input: personal or absent. An encrypted record cannot distinguish them."""
    return f"{'encrypted' if record.personal == 'sealed' else record.personal} or not given" if record.personal else None


def _when(time: str) -> str:
    return time.replace("T", " ")[:19]


def _short(digest: str | None) -> str:
    return "–" if digest is None else f"{digest[:_SHORT]}…"
