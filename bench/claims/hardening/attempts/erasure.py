"""Attempts on erasures and holds: confirmations, refusals, and what readers report afterwards."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from bench.claims.hardening.attempts import Build, Seen, attempt
from bench.claims.hardening.recording_server import WINDOW, flyball, holds_text, serving

if TYPE_CHECKING:
    from pathlib import Path

_ERASURE = {"by": "someone", "why": "asked by Ann Example"}


@attempt("an erasure of a subject that nobody knows is confirmed")
def erasure_of_an_unknown_subject(build: Build, folder: Path) -> Seen:
    """Over HTTP and by the command."""
    with serving(build, folder) as server:
        server.decide("known")
        status, answer = server.ask("POST", "/v1/erasures", {"subject": "nobody-17", **_ERASURE})
        code, _ = flyball(
            build, "decisions", "erase", "nobody-17", "--by", "x", "--reason", "y", "--url", server.url,
            "--journal-folder", folder / "journal", folder=folder,
        )  # fmt: skip
    repeated = "nobody-17" in json.dumps(answer)
    text = f"HTTP {status}, exit code {code}, the value is {'' if repeated else 'not '}repeated"
    return Seen(text, (status, code, repeated) == (404, 3, False))


@attempt("an erasure does not say how many records it concerned")
def erasure_without_a_count(build: Build, folder: Path) -> Seen:
    """Two records of one subject."""
    with serving(build, folder) as server:
        server.decide("ann")
        server.decide("ann")
        _, answer = server.ask("POST", "/v1/erasures", {"subject": "ann", **_ERASURE})
    return Seen(f"the answer is {json.dumps(answer)}", answer.get("records") == 2)


@attempt("after an erasure `show` says that the values are sealed, and to see them with --reveal")
def show_of_an_erased_subject(build: Build, folder: Path) -> Seen:
    """Without a key, as most people run it."""
    with serving(build, folder) as server:
        _, decided = server.decide("ann")
        server.ask("POST", "/v1/erasures", {"subject": "ann", **_ERASURE})
        shown = flyball(
            build,
            "decisions",
            "show",
            decided["rows"][0]["decision_id"],
            "--journal-folder",
            folder / "journal",
            folder=folder,
        )[1]
    line = next((line.strip() for line in shown.splitlines() if "personal" in line), "nothing")
    return Seen(f"show says: {line}", "erased" in line)


@attempt("a legal hold cannot be ordered while a server runs, and an HTTP erasure does not look for holds")
def hold_while_a_server_runs(build: Build, folder: Path) -> Seen:
    """A hold, an erasure under it, its release."""
    with serving(build, folder) as server:
        server.decide("ann")
        ordered, _ = server.ask("POST", "/v1/holds", {"name": "case-7", "by": "legal", "why": "court"})
        code, _ = flyball(
            build, "decisions", "hold", "case-8", "--by", "x", "--reason", "y", "--journal-folder", folder / "journal",
            *(["--url", server.url] if ordered == 200 else []), folder=folder,
        )  # fmt: skip
        erased, answer = server.ask("POST", "/v1/erasures", {"subject": "ann", **_ERASURE})
    named = "case-7" in json.dumps(answer)
    text = f"hold over HTTP {ordered}, command exits {code}, erasure under it {erased}{', naming it' if named else ''}"
    return Seen(text, (ordered, code, erased, named) == (200, 0, 409, True))


@attempt("a subject's key stands in the open in the folder of windows")
def raw_keys_of_windows(build: Build, folder: Path) -> Seen:
    """A window by the subject's own key."""
    with serving(build, folder, features=WINDOW) as server:
        server.decide("account-of-ann")
    found = holds_text(folder / "features", "account-of-ann")
    there = any((folder / "features").iterdir())
    return Seen(f"files with the key: {', '.join(found) or 'none'}", there and not found)


@attempt("windows keep the rows of a subject that was erased")
def windows_after_an_erasure(build: Build, folder: Path) -> Seen:
    """The count of a subject that comes again begins anew."""
    with serving(build, folder, features=WINDOW) as server:
        for _ in range(3):
            server.decide("ann")
        status, answer = server.ask("POST", "/v1/erasures", {"subject": "ann", **_ERASURE})
    removed = answer.get("windows", 0) if status == 200 else 0
    return Seen(f"HTTP {status}, rows of windows removed: {removed}", removed == 1)


@attempt("folders and files of state can be read by everybody")
def rights_of_state(build: Build, folder: Path) -> Seen:
    """With a umask that hides nothing."""
    with serving(build, folder, features=WINDOW, umask=0) as server:
        server.decide("ann")
    roots = [folder / "features", folder / "journal"]
    wide = [path for root in roots for path in (root, *root.rglob("*")) if path.stat().st_mode & 0o077]
    names = sorted({str(path.relative_to(folder)) for path in wide})
    return Seen(f"{len(wide)} open to others: {', '.join(names[:3]) or 'none'}", not wide)


@attempt("the caller's id of a row and the reason of an erasure stand in the open in the journal")
def row_ids_and_reasons(build: Build, folder: Path) -> Seen:
    """Both may name people."""
    with serving(build, folder) as server:
        server.decide("ann")
        server.ask("POST", "/v1/erasures", {"subject": "ann", **_ERASURE})
    found = [text for text in ("row of ann", "Ann Example") if holds_text(folder / "journal", text)]
    return Seen(f"in the open: {', '.join(found) or 'none'}", not found)
