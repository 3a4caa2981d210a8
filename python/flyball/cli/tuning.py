"""What of this machine makes tails longer, for `flyball doctor`: quota, huge pages, governor, swap, open files.

Reads what the kernel shows under `root`; what it does not show has no line. Changes nothing.
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
    """One line: what was looked at, whether it is good, what was found, and the command that mends it."""

    name: str
    good: bool
    found: str
    mend: str = ""
    needed: bool = False


def tuning(machine: Machine, connections_max: int, *, root: Path = Path("/")) -> list[Finding]:
    """One finding for each thing that the kernel shows."""
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
    """Lanes are whole cores of the quota: one that used up a fraction would stand still with all of its requests."""
    granted = machine.cpu_quota
    if granted is None or granted >= len(machine.cpus):
        return None
    if granted == int(granted):
        return Finding("cpu quota", True, f"{granted:g} cores, all used by lanes")
    least = f"{granted:g} cores for one lane: it stands still in every period" if granted < 1 else ""
    lost = least or f"{granted:g} cores: {granted % 1:.2g} of a core is in no lane"
    whole = int(granted) + 1
    mend = f"grant whole cores: docker run --cpus {whole}, or in Kubernetes resources.limits.cpu: {whole}"
    return Finding("cpu quota", False, lost, mend)


def huge_pages(root: Path) -> Finding | None:
    """Under `always` any allocation may wait for the kernel to clear, or to make room for, a page of 2 MiB."""
    folder = root / "sys/kernel/mm/transparent_hugepage"
    chosen = re.search(r"\[(\w+)\]", _text(folder / "enabled"))
    if chosen is None:
        return None
    if chosen[1] != "always":
        return Finding("huge pages", True, chosen[1])
    mend = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"
    return Finding("huge pages", False, "always: an allocation may wait while the kernel makes one", mend)


def governor(root: Path, cpus: list[int]) -> Finding | None:
    """Most guests show none: the host decides."""
    folder = root / "sys/devices/system/cpu"
    names = {_text(folder / f"cpu{cpu}/cpufreq/scaling_governor") for cpu in cpus} - {""}
    if not names:
        return None
    if names == {"performance"}:
        return Finding("cpu governor", True, "performance")
    told = f"{', '.join(sorted(names))}: a core that was idle is slow at first"
    return Finding("cpu governor", False, told, "sudo cpupower frequency-set -g performance")


def swap(root: Path) -> Finding | None:
    """A model that was swapped out answers its next request from disk."""
    text = _text(root / "proc/meminfo")
    sizes = {key: int(kib) * 1024 for key, kib in re.findall(r"^(Swap\w+):\s+(\d+) kB$", text, re.MULTILINE)}
    if "SwapTotal" not in sizes:
        return None
    used = sizes["SwapTotal"] - sizes.get("SwapFree", 0)
    if used == 0:
        return Finding("swap", True, "not in use" if sizes["SwapTotal"] else "there is none")
    mend = 'sudo swapoff -a, or set "mlock": true in the server configuration'
    return Finding("swap", False, f"{used / 1e6:,.0f} MB in use: models may be among it", mend)


def open_files(files_max: int, connections_max: int) -> Finding:
    """Each connection is an open file; beyond the limit the server cannot accept, whatever its settings say."""
    wanted = connections_max + _FILES_BESIDE_CONNECTIONS
    if files_max == resource.RLIM_INFINITY or files_max >= wanted:
        shown = "no limit" if files_max == resource.RLIM_INFINITY else f"limit of {files_max}"
        return Finding("open files", True, f"{shown}, enough for {connections_max} connections")
    mend = f"ulimit -n {wanted}; under systemd LimitNOFILE={wanted}; under docker --ulimit nofile={wanted}"
    return Finding("open files", False, f"limit of {files_max}: too few for {connections_max} connections", mend)


def _text(path: Path) -> str:
    """A file's words; empty where it is not there or not ours to read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
