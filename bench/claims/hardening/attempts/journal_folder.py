"""Attempts on a running server's journal folder, and on `verify` with foreign files beside the log."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

from bench.claims.hardening.attempts import Build, Seen, attempt
from bench.claims.hardening.recording_server import flyball, serving

if TYPE_CHECKING:
    from pathlib import Path

_NOTICED_S = 5.0


@attempt("decisions are acknowledged though the journal's folder was deleted")
def deleted_journal_folder(build: Build, folder: Path) -> Seen:
    """Fail-closed decisions, one after the other, until one is refused."""
    with serving(build, folder) as server:
        server.decide("ann")
        shutil.rmtree(folder / "journal")
        acknowledged, refused, begun = 0, None, time.monotonic()
        while refused is None and time.monotonic() - begun < _NOTICED_S:
            status, _ = server.decide("ann")
            acknowledged += status == 200
            refused = time.monotonic() - begun if status == 503 else None
    when = "never refused" if refused is None else f"refused after {refused * 1e3:.0f} ms"
    return Seen(f"{acknowledged} acknowledged, {when}", acknowledged == 0 and refused is not None)


@attempt("a journal's folder that was replaced is not noticed")
def replaced_journal_folder(build: Build, folder: Path) -> Seen:
    """A copy in its place, and no request at all."""
    with serving(build, folder) as server:
        server.decide("ann")
        (folder / "journal").rename(folder / "away")
        shutil.copytree(folder / "away", folder / "journal")
        unavailable, begun = None, time.monotonic()
        while unavailable is None and time.monotonic() - begun < _NOTICED_S:
            unavailable = server.ask("GET", "/v1/journal")[1]["unavailable"]
            time.sleep(0.05)
        took = time.monotonic() - begun
    return Seen(f"unavailable: {unavailable} after {took:.1f} s", unavailable is not None)


@attempt("verify does not see blobs that are missing or were changed")
def blobs_that_verify_passes_over(build: Build, folder: Path) -> Seen:
    """One of each, after the server has ended."""
    with serving(build, folder) as server:
        server.decide("ann")
    place = folder / "journal"
    codes = []
    blob = next((place / "blobs").iterdir())
    content = blob.read_bytes()
    for change in (content + b" ", None):
        if change is None:
            blob.unlink()
        else:
            blob.write_bytes(change)
        codes.append(flyball(build, "decisions", "verify", "--journal-folder", place, folder=folder)[0])
    return Seen(f"exit codes: changed {codes[0]}, missing {codes[1]}", codes == [4, 4])


@attempt("verify does not see that the key of an erased subject was restored, or that a key is missing")
def keys_that_verify_passes_over(build: Build, folder: Path) -> Seen:
    """The file of keys from before the erasure, and none of the keys at all."""
    place = folder / "journal"
    with serving(build, folder) as server:
        server.decide("ann")
        server.decide("bob")
        before = (place / "subjects").read_bytes()
        server.ask("POST", "/v1/erasures", {"subject": "ann", "by": "x", "why": "y"})
    codes = []
    for content in (before, before[:128]):
        (place / "subjects").write_bytes(content)
        codes.append(flyball(build, "decisions", "verify", "--journal-folder", place, folder=folder)[0])
    return Seen(f"exit codes: restored {codes[0]}, missing {codes[1]}", codes == [4, 4])
