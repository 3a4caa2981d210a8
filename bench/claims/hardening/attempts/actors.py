"""Attempts on actors: whose name a registry's history records."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from bench.claims.hardening.attempts import Seen, attempt
from bench.claims.hardening.commands import done, flyball, linear

if TYPE_CHECKING:
    from pathlib import Path

    from bench.claims.hardening.attempts import Build


def _registry(build: Build, folder: Path) -> None:
    """A registry that trusts Ada's key to sign and Grace's to approve, with one version of Ada's."""
    linear(folder / "fraud.onnx", 2)
    done(build, folder, "registry", "init", "--environment", "dev")
    for name in ("root", "ada", "grace"):
        done(build, folder, "key", "new", f"{name}.pem")
    (folder / ".flyball/registry/root.pub").write_bytes((folder / "root.pub").read_bytes())
    done(build, folder, "trust", "init")
    done(build, folder, "trust", "add", "ada.pub", "--name", "ada", "--role", "signer")
    done(build, folder, "trust", "add", "grace.pub", "--name", "grace", "--role", "approver")
    done(build, folder, "register", "fraud", "fraud.onnx", "--by", "ada")


def _events(build: Build, folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done(build, folder, "registry", "history", "fraud", "--json").splitlines()]


def _tried(build: Build, folder: Path, kind: str, *words: str) -> Seen:
    ran = flyball(build, folder, *words, "--by", "bob")
    written = [event["actor"] for event in _events(build, folder) if event["kind"] == kind]
    if "bob" in written:
        return Seen(f"exit {ran.returncode}; the history says that bob {kind} it", holds=False)
    named = "bob" in ran.stderr and ("ada" in ran.stderr or "grace" in ran.stderr)
    return Seen(f"exit {ran.returncode}: {ran.stderr.strip().splitlines()[0][:110]}", holds=bool(ran.returncode) and named)


@attempt("`sign --by bob` with Ada's key writes that Bob signed")
def sign_as_somebody_else(build: Build, folder: Path) -> Seen:
    """Whoever has a key may write any name."""
    _registry(build, folder)
    return _tried(build, folder, "signed", "sign", "fraud@1", "--key", "ada.pem")


@attempt("`approve --by bob` with Grace's key writes that Bob approved")
def approve_as_somebody_else(build: Build, folder: Path) -> Seen:
    """The same for an approval."""
    _registry(build, folder)
    done(build, folder, "sign", "fraud@1", "--key", "ada.pem", "--by", "ada")
    return _tried(build, folder, "approved", "approve", "fraud@1", "--key", "grace.pem")


@attempt("a name that nobody authenticated looks like any other in the history")
def unauthenticated_actor_is_not_marked(build: Build, folder: Path) -> Seen:
    """`--by NAME` on a registry's own folder is a claim."""
    _registry(build, folder)
    done(build, folder, "registry", "alias", "fraud", "best", "1", "--by", "the chief risk officer")
    event = _events(build, folder)[-1]
    told = next(line for line in done(build, folder, "registry", "history", "fraud").splitlines() if "chief risk" in line)
    marked = event.get("authenticated") in (False, "none") and "not authenticated" in told
    return Seen(f"authenticated: {event.get('authenticated', 'no such key')}; shown: {told.strip()[:90]}", holds=marked)
