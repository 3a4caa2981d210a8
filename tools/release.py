"""Makes a release of what is committed: `python tools/release.py 0.2.0`; `make release VERSION=0.2.0` tests first.

Refuses claims without a whole run of the last 150 commits. Sets the version, dates the changelog's section, commits both
and tags the commit with the section's text. Pushes nothing.
"""
# ruff: noqa: S607, T201

from __future__ import annotations

import datetime
import os
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

CARGO, LOCK, CHANGELOG = Path("Cargo.toml"), Path("Cargo.lock"), Path("CHANGELOG.md")
UNRELEASED = "## Unreleased\n"
_VERSION = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?")


class NotReadyError(Exception):
    """Why there is nothing to release, and what to do about it."""


def with_version(cargo: str, version: str) -> str:
    """The workspace's Cargo.toml with another version; crates and the Python package take theirs from there."""
    changed, count = re.subn(r'^version = "[^"]+"$', f'version = "{version}"', cargo, count=1, flags=re.MULTILINE)
    if not count:
        raise NotReadyError('Cargo.toml has no line `version = "…"`')
    return changed


def dated(changelog: str, version: str, day: datetime.date) -> tuple[str, str]:
    """The changelog with its unreleased section under the version, and that section's text."""
    before, found, after = changelog.partition(UNRELEASED)
    if not found:
        raise NotReadyError(f"CHANGELOG.md has no section `{UNRELEASED.strip()}`")
    text = after.split("\n## ", 1)[0].strip()
    if not text:
        raise NotReadyError("CHANGELOG.md says nothing under Unreleased; add a line for each change that users notice")
    return f"{before}{UNRELEASED}\n## {version} ({day.isoformat()})\n{after}", text


def main(arguments: list[str]) -> int:
    """Check, write, commit, tag."""
    try:
        if len(arguments) != 1 or not _VERSION.fullmatch(arguments[0]):
            raise NotReadyError("name the version:  make release VERSION=0.2.0")
        version = arguments[0]
        _check(version)
        _check_claims()
        cargo = with_version(CARGO.read_text(), version)
        changelog, text = dated(CHANGELOG.read_text(), version, datetime.datetime.now(datetime.UTC).date())
    except NotReadyError as reason:
        print(f"release: {reason}")
        return 1
    CARGO.write_text(cargo)
    CHANGELOG.write_text(changelog)
    subprocess.run(["cargo", "update", "--quiet", "--workspace", "--offline"], check=True)
    _git("commit", "--quiet", "--message", f"release: {version}", str(CARGO), str(LOCK), str(CHANGELOG))
    _git("tag", "--annotate", f"v{version}", "--message", f"flyball {version}\n\n{text}", "--cleanup", "verbatim")
    print(f"release: v{version} is committed and tagged; publish it:  git push --follow-tags")
    return 0


def _check(version: str) -> None:
    if _git("status", "--porcelain"):
        raise NotReadyError("the working tree has changes; commit or stash them")
    if (branch := _git("rev-parse", "--abbrev-ref", "HEAD")) != "main":
        raise NotReadyError(f"this is branch '{branch}'; releases are made from main:  git switch main")
    if _git("tag", "--list", f"v{version}"):
        raise NotReadyError(f"v{version} exists already; name a newer version")


def _check_claims() -> None:
    """What the page promises must have been measured on about this code."""
    if old := stale_claims():
        told = "claims were not measured on this code; measure them, then make claims-page:"
        raise NotReadyError("\n  ".join([told, *old]))


def stale_claims() -> list[str]:
    """Suites without a whole run that is new enough, each with its command."""
    from bench.claims.check import stale
    from bench.claims.table import suites

    return stale(suites())


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    os.chdir(Path(__file__).resolve().parents[1])
    sys.exit(main(sys.argv[1:]))
