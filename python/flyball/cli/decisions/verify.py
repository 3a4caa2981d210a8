"""`flyball decisions verify`: verifies that the log is unchanged, or reports every finding."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from flyball.cli.decisions.options import FOLDER, ID_WORDS, Folder, open_log
from flyball.cli.option import AsJson, argument, option
from flyball.cli.output import console, counted, print_json
from flyball.cli.progress import progress_on
from flyball.errors import EvidenceError, JournalRefusedError, NotFoundError, UsageError

if TYPE_CHECKING:
    from flyball.native.journal import JournalLog
    from flyball.native.journal_documents import Verified

_SHOWN = 50


def verify(
    decision_id: Annotated[str | None, argument(f"Only one, by its inclusion proof. {ID_WORDS}", metavar="[ID]")] = None,
    segment: Annotated[int | None, option("Only this segment.", min=1, metavar="N")] = None,
    checkpoint: Annotated[
        Path | None, option("A checkpoint stored elsewhere; the log must still contain what it signs.", metavar="FILE")
    ] = None,
    public_key: Annotated[str | None, option("The public key to trust; by default the journal's.", metavar="HEX")] = None,
    without_keys: Annotated[bool, option("The folder is a copy without the subjects' keys.", "--without-keys")] = False,
    journal: Folder = FOLDER,
    json: AsJson = False,
) -> None:
    """Verify the log: every frame, link, root and signature, the blobs of records, and the subjects' keys.

    Exit code 4 if anything is wrong, also if the key of an erased subject is back, or a key is missing.

    Reports all findings and repairs nothing. Anyone with write access to the folder could have cut off its end: only a
    checkpoint stored elsewhere reveals that.

        flyball decisions verify

        flyball decisions verify last
    """
    if decision_id is not None and (segment is not None or checkpoint is not None):
        raise UsageError("give either an ID, or --segment or --checkpoint")
    log = open_log(journal)
    if decision_id is not None:
        _one(log, decision_id, json)
        return
    note = None if checkpoint is None else _note(checkpoint)
    verified = _all(log, segment, note, public_key, without_keys)
    if segment is not None and not verified.segments and not verified.findings:
        raise NotFoundError(f"the journal in {journal} has no segment {segment}", code="record_not_found")
    _report(verified, json, segment)


def _one(log: JournalLog, decision_id: str, json: bool) -> None:
    from flyball.decision_log.read.records import find
    from flyball.decision_log.read.show import proof_line, prove

    history = find(log, decision_id)
    proven = prove(log, history.decision)
    if json:
        print_json({"id": history.decision.id, **asdict(proven)})
    else:
        console().print(proof_line(proven))
    if proven.findings:
        raise EvidenceError(
            f"the proof of {history.decision.id} does not hold", next_step="verify the whole log:  flyball decisions verify"
        )


def _all(log: JournalLog, segment: int | None, note: str | None, key: str | None, without_keys: bool) -> Verified:
    with progress_on(console(stderr=True)) as progress:
        step = progress.begin("verify", 1.0)
        verified = log.verify(
            segment=segment,
            checkpoint=note,
            key=key,
            without_keys=without_keys,
            told=lambda done, total: step.update(done / max(total, 1), f"{done:,} of {total:,} segments"),
        )
        step.end(counted(verified.segments, "segment"))
    return verified


def _report(verified: Verified, json: bool, segment: int | None) -> None:
    from rich.text import Text

    out = console()
    found = len(verified.findings) + verified.findings_beyond
    if json:
        print_json(verified.model_dump(mode="json"))
    for finding in [] if json else verified.findings[:_SHOWN]:
        out.print(Text(f"  {finding}", style="red"))
    if not json and found > _SHOWN:
        out.print(f"  … and {found - _SHOWN:,} more: --json has all of them", markup=False)
    if found:
        raise EvidenceError(
            f"the journal was changed or damaged: {counted(found, 'finding')}",
            next_step="keep the folder as it is, and compare it with a backup; flyball does not repair it",
        )
    if not json:
        seen = f"{counted(verified.frames, 'record')} in {counted(verified.segments, 'segment')}"
        signed = "" if segment is not None else f", {counted(verified.checkpoints, 'checkpoint')}"
        others = ((verified.blobs, "blob"), (verified.subjects, "subject"))
        also = "".join(f", {counted(count, noun)}" for count, noun in others if count)
        out.print(Text.assemble(("verified", "bold green"), f"   {seen}{signed}{also}"))
        if segment is None:
            _extent(verified)
        if verified.unfinished is not None:
            out.print(Text(f"  unfinished, never acknowledged: {verified.unfinished}", style="dim"))
        if segment is None:
            out.print("Store the last checkpoint elsewhere:  flyball decisions checkpoint", style="dim", markup=False)


def _extent(verified: Verified) -> None:
    """Print what was not verified: records that no checkpoint signs yet, and records removed by retention."""
    out, signed = console(), verified.signed
    if signed is None:
        out.print("  nothing is signed yet: there is no checkpoint", style="yellow", markup=False)
    else:
        behind = f"; {verified.unsigned:,} later records are not signed" if verified.unsigned else ""
        extent = f"  signed up to record {signed.frames:,} of segment {signed.segment:,}{behind}"
        out.print(extent, style="dim", markup=False)
    if verified.retired_segments is not None:
        gone = f"  removed by retention: segments {verified.retired_segments}, with records until {verified.retired_until}"
        out.print(gone, style="yellow", markup=False, highlight=False)


def _note(path: Path) -> str:
    from flyball.decision_log.proof.checkpoints import parse

    with suppress(UnicodeDecodeError):
        # A file that is no note proves nothing about the journal; a forged note does.
        return parse(path.read_text(encoding="utf-8")).note
    raise JournalRefusedError(f"--checkpoint: {path} is not a text file")
