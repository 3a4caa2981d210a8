"""What a run measures and where: the build's commit and profile, what differs from the commit, and the machine's class.

Must not know claims.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import time
from typing import TYPE_CHECKING, Any

from bench.claims.record import Head
from flyball.bench.machine import machine_record
from flyball.native.machine import build_info

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# A run changes these itself.
_WRITTEN = ["bench/results", "docs/claims.md", "docs/performance.md", "docs/images", "docs/reference/conformance.md"]
SHIPPED = "dist"
UNKNOWN = "no git here"
DIRTY = "dirty"
"""The file of a pack that has what `dirty` said where it was made."""


def head_here(suite: str, packed: Path | None = None) -> Head:
    """The head of a record that begins now; `packed` is a folder that bench.claims.tails.pack made."""
    build, machine = build_info(), machine_here()
    return Head(
        suite=suite,
        started=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        commit=build.commit[:12],
        dirty=(packed / DIRTY).read_text() if packed else dirty(build.commit),
        profile=build.profile,
        machine_class=machine_class(machine),
        machine=machine,
    )


def machine_here() -> dict[str, Any]:
    """What figures depend on."""
    seen = machine_record(None, None)
    return {
        "cores": len(seen.cpus_allowed),
        "cpu_model": seen.cpu_model,
        "memory_bytes": seen.memory_bytes,
        "kernel": seen.kernel,
        "virtualisation": seen.virtualisation or "",
        "cgroup_cpu_quota": seen.cgroup_cpu_quota or 0.0,
    }


def machine_class(machine: Mapping[str, Any]) -> str:
    """A short name that stays the same while cores, CPU model and memory do: `amd-epyc-2c-25gb`."""
    model = re.sub(r"\((?:r|tm)\)|\b(?:processor|cpu)\b|@.*", " ", str(machine["cpu_model"]).lower())
    words = re.findall(r"[a-z0-9]+", model)
    return "-".join([*words, f"{machine['cores']}c", f"{machine['memory_bytes'] / 1e9:.0f}gb"])


def machine_words(machine: Mapping[str, Any]) -> str:
    """The same for people."""
    virtual = f" · {machine['virtualisation']}" if machine["virtualisation"] else ""
    memory = f"{machine['memory_bytes'] / 1e9:.0f} GB"
    return f"{machine['cpu_model']} · {machine['cores']} cores · {memory} · {machine['kernel']}{virtual}"


def dirty(commit: str) -> str:
    """Empty if the scripts are those of the build's commit; else a digest of what differs."""
    left_out = [f":(exclude){path}" for path in _WRITTEN]
    here = _git("rev-parse", "HEAD")
    if here is None:
        return UNKNOWN
    differs = [_git(*words, "--", ".", *left_out) or "" for words in (("status", "--porcelain"), ("diff", "HEAD"))]
    if here.startswith(commit[:12]) and not any(differs):
        return ""
    return hashlib.sha256("\n".join([here, *differs]).encode()).hexdigest()[:12]


def _git(*words: str) -> str | None:
    try:
        done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)  # noqa: S607
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
