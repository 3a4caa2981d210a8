"""Machine settings that affect tail latency, for `flyball doctor`: quota, huge pages, governor, swap, open files.

Reads the kernel's files under `root`; settings that it does not expose are skipped. Changes nothing.
"""

from __future__ import annotations

import re
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flyball.native.server_documents import Machine

_FILES_BESIDE_CONNECTIONS = 256  # listeners and event queues of the lanes, model files while they load


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: its name, whether it passed, what was found, and the command that fixes it."""

    name: str
    good: bool
    found: str
    fix: str = ""
    needed: bool = False


def tuning(machine: Machine, connections_max: int, *, root: Path = Path("/")) -> list[Finding]:
    """Return one finding for each setting that the kernel exposes."""
    files_max, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = [
        quota(machine),
        huge_pages(root),
        governor(root, machine.cpus),
        swap(root),
        open_files(files_max, connections_max),
    ]
    return [finding for finding in found if finding is not None]


def quota(machine: Machine) -> Finding | None:
    """Lanes are whole cores of the quota: a lane on a fraction would be throttled with all its requests."""
    granted = machine.cpu_quota
    if granted is None or granted >= len(machine.cpus):
        return None
    if granted == int(granted):
        return Finding("cpu quota", True, f"{granted:g} cores, all used by lanes")
    least = f"{granted:g} cores for one lane: it is throttled in every period" if granted < 1 else ""
    lost = least or f"{granted:g} cores: {granted % 1:.2g} of a core is unused"
    whole = int(granted) + 1
    fix = f"grant whole cores: docker run --cpus {whole}, or in Kubernetes resources.limits.cpu: {whole}"
    return Finding("cpu quota", False, lost, fix)


def huge_pages(root: Path) -> Finding | None:
    """Under `always` any allocation may wait for the kernel to clear, or to make room for, a page of 2 MiB."""
    folder = root / "sys/kernel/mm/transparent_hugepage"
    chosen = re.search(r"\[(\w+)\]", _text(folder / "enabled"))
    if chosen is None:
        return None
    if chosen[1] != "always":
        return Finding("huge pages", True, chosen[1])
    fix = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"
    return Finding("huge pages", False, "always: an allocation may wait while the kernel prepares a huge page", fix)


def governor(root: Path, cpus: list[int]) -> Finding | None:
    """Most guests expose no governor: the host decides."""
    folder = root / "sys/devices/system/cpu"
    names = {_text(folder / f"cpu{cpu}/cpufreq/scaling_governor") for cpu in cpus} - {""}
    if not names:
        return None
    if names == {"performance"}:
        return Finding("cpu governor", True, "performance")
    slow = f"{', '.join(sorted(names))}: an idle core is slow at first"
    return Finding("cpu governor", False, slow, "sudo cpupower frequency-set -g performance")


def swap(root: Path) -> Finding | None:
    """A model that was swapped out answers its next request from disk."""
    text = _text(root / "proc/meminfo")
    sizes = {key: int(kib) * 1024 for key, kib in re.findall(r"^(Swap\w+):\s+(\d+) kB$", text, re.MULTILINE)}
    if "SwapTotal" not in sizes:
        return None
    used = sizes["SwapTotal"] - sizes.get("SwapFree", 0)
    if used == 0:
        return Finding("swap", True, "not in use" if sizes["SwapTotal"] else "none")
    fix = 'sudo swapoff -a, or set "mlock": true in the server configuration'
    return Finding("swap", False, f"{used / 1e6:,.0f} MB in use: models may be swapped out", fix)


def open_files(files_max: int, connections_max: int) -> Finding:
    """Each connection is an open file; beyond the limit the server cannot accept, whatever its settings."""
    wanted = connections_max + _FILES_BESIDE_CONNECTIONS
    if files_max == resource.RLIM_INFINITY or files_max >= wanted:
        shown = "no limit" if files_max == resource.RLIM_INFINITY else f"limit of {files_max}"
        return Finding("open files", True, f"{shown}, enough for {connections_max} connections")
    fix = f"ulimit -n {wanted}; under systemd LimitNOFILE={wanted}; under docker --ulimit nofile={wanted}"
    return Finding("open files", False, f"limit of {files_max}: too few for {connections_max} connections", fix)


def _text(path: Path) -> str:
    """The file's text; empty if it is missing or unreadable."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
