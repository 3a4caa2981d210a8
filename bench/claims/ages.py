"""The age of records in commits, by git. Must not know claims."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.claims.record import Head

AGE_MAX = 150
"""Commits after which a record says nothing about a release."""


def head_commit() -> str | None:
    """The commit of this checkout; None without git."""
    return _git("rev-parse", "--short=12", "HEAD")


def age(commit: str, as_of: str = "HEAD") -> int | None:
    """Commits from one to the other; None if one is not in the history of the other."""
    if _git("merge-base", "--is-ancestor", commit, as_of) is None:
        return None
    return int(_git("rev-list", "--count", f"{commit}..{as_of}") or 0)


def fresh(head: Head, as_of: str = "HEAD") -> bool:
    """Whether a record still says something about this code: of a clean tree, and not too old."""
    old = age(head.commit, as_of)
    return not head.dirty and old is not None and old <= AGE_MAX


def earlier_versions(path: str) -> list[str]:
    """A file's content in every commit that changed it; empty without git."""
    commits = (_git("log", "--format=%H", "--", path) or "").split()
    found = [_git("show", f"{commit}:{path}", strip=False) for commit in commits]
    return [content for content in found if content is not None]


def _git(*words: str, strip: bool = True) -> str | None:
    try:
        done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)  # noqa: S607
    except OSError:
        return None
    if done.returncode:
        return None
    return done.stdout.strip() if strip else done.stdout
