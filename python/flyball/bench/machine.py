"""Describes the machine of a measurement: hardware, limits, versions, and host activity.

Files are read below `root`, so that tests can supply their own. Must not know what is measured.
"""

from __future__ import annotations

import os
import platform
import re
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Self

from flyball.bench.record import HostSeen, MachineRecord, SoftwareRecord
from flyball.errors import RefusedError
from flyball.native.machine import build_info, machine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

ROOT = Path("/")
# cgroup v1 writes "no limit" as the largest number of whole pages.
_V1_UNLIMITED_BYTES = 1 << 60


def machine_record(
    server_cpus: Sequence[int] | None, generator_cpus: Sequence[int] | None, *, root: Path = ROOT
) -> MachineRecord:
    """The hardware available to this process; None for cores leaves placement to the kernel."""
    seen = machine()
    flags = _cpu_flags(root)
    used = {*(server_cpus or seen.cpus), *(generator_cpus or seen.cpus)}
    # The extension reads cgroup v2; cgroup v1 hosts set the same limits elsewhere.
    quota = seen.cpu_quota if seen.cpu_quota is not None else _v1_quota(root)
    memory = seen.memory_limit_bytes if seen.memory_limit_bytes is not None else _v1_memory(root)
    return MachineRecord(
        cpu_model=seen.cpu_model,
        cpu_flags=flags,
        cpus_online=os.cpu_count() or len(seen.cpus),
        cpus_allowed=seen.cpus,
        server_cpus=None if server_cpus is None else list(server_cpus),
        generator_cpus=None if generator_cpus is None else list(generator_cpus),
        governor=_governor(root, used),
        kernel=seen.kernel,
        virtualisation=_virtualisation(root, flags),
        memory_bytes=_memory_total(root),
        cgroup_cpu_quota=quota,
        cgroup_memory_bytes=memory,
    )


def software_record() -> SoftwareRecord:
    """The versions of the measuring and the measured software."""
    build = build_info()
    return SoftwareRecord(
        flyball_version=build.version,
        commit=build.commit,
        profile=build.profile,
        target=build.target,
        rustc=build.rustc,
        ort_version=_ort_version(),
        python=platform.python_version(),
    )


def refuse_debug_build() -> None:
    """Refuse an unoptimised build: its figures say nothing about releases."""
    build = build_info()
    if build.debug_assertions:
        raise RefusedError(
            f"the extension is a debug build (profile {build.profile}), which cannot be benchmarked",
            code="debug_build",
            next_step="make build",
        )


def warnings_of(machine: MachineRecord) -> list[str]:
    """Properties of this machine that distort figures, and remedies."""
    server, generator = (
        set(cpus if cpus is not None else machine.cpus_allowed) for cpus in (machine.server_cpus, machine.generator_cpus)
    )
    warnings = []
    if machine.governor is not None and machine.governor != "performance":
        warnings.append(
            f"the frequency governor is {machine.governor}, so that clock rates vary with the load: "
            "cpupower frequency-set -g performance"
        )
    # A server with unknown cores may run on another machine.
    if machine.server_cpus is not None and server & generator:
        shared = ", ".join(str(cpu) for cpu in sorted(server & generator))
        warnings.append(
            f"the generator shares cores with the server ({shared}), which adds to the latencies: use at least two cores"
        )
    quota, cores = machine.cgroup_cpu_quota, len(server | generator)
    if quota is not None and quota < cores:
        warnings.append(
            f"the cgroup limits {cores} to the time of {quota:g} cores, and throttles all threads beyond it: "
            "raise its CPU limit"
        )
    return warnings


def virtual_note(machine: MachineRecord) -> str | None:
    """A note for virtual machines. Not a warning: most machines are, and the steal figure shows interference."""
    if machine.virtualisation is None:
        return None
    return f"Measured on a {machine.virtualisation}: repeat on your own machine before you promise a figure."


class HostWatch:
    """Host activity inside a `with`: CPU time stolen from these cores, or all, and the load at the end."""

    seen: HostSeen

    def __init__(self, cpus: Sequence[int] | None = None, *, root: Path = ROOT) -> None:
        self._root = root
        self._lines = {"cpu"} if cpus is None else {f"cpu{cpu}" for cpu in cpus}

    def __enter__(self) -> Self:
        self._before = self._cpu_times()
        return self

    def __exit__(self, *_: object) -> None:
        self.seen = self._look()

    def _look(self) -> HostSeen:
        gone = [now - then for now, then in zip(self._cpu_times(), self._before, strict=True)]
        total = sum(gone)
        load = (self._root / "proc/loadavg").read_text().split()[0]
        # A kernel may count steal backwards for a tick; a negative share would be nonsense.
        return HostSeen(steal_share=max(gone[7], 0) / total if total > 0 else 0.0, load_1m=float(load))

    def _cpu_times(self) -> list[int]:
        """user, nice, system, idle, iowait, irq, softirq, steal; guest time is already in user."""
        rows = [line.split() for line in (self._root / "proc/stat").read_text().splitlines() if line.startswith("cpu")]
        times = [[int(field) for field in fields[1:9]] for fields in rows if fields[0] in self._lines]
        return [sum(column) for column in zip(*times, strict=True)] or [0] * 8


def _cpu_flags(root: Path) -> list[str]:
    """CPU flags of the first core; ARM calls them features."""
    found = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", _text(root / "proc/cpuinfo") or "", re.MULTILINE)
    return found[1].split() if found else []


def _governor(root: Path, cpus: Iterable[int]) -> str | None:
    """The governors of these cores; None if the kernel reports none, as in most guests."""
    folder = root / "sys/devices/system/cpu"
    found = {_text(folder / f"cpu{cpu}/cpufreq/scaling_governor") for cpu in cpus} - {None}
    return ", ".join(sorted(name for name in found if name)) or None


def _virtualisation(root: Path, flags: list[str]) -> str | None:
    """The hypervisor's name if known; None on bare metal."""
    hypervisor = _text(root / "sys/hypervisor/type")
    if not hypervisor and "hypervisor" not in flags:
        return None
    name = hypervisor or _text(root / "sys/class/dmi/id/sys_vendor")
    return f"virtual machine ({name})" if name else "virtual machine"


def _memory_total(root: Path) -> int:
    found = re.search(r"^MemTotal:\s*(\d+) kB$", _text(root / "proc/meminfo") or "", re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def _v1_quota(root: Path) -> float | None:
    """The smallest quota of this process's groups, in cores."""
    quotas = []
    for folder in _v1_folders(root, "cpu"):
        quota, period = (_number(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
        if quota is not None and period and quota > 0:  # -1 means no limit
            quotas.append(quota / period)
    return min(quotas, default=None)


def _v1_memory(root: Path) -> int | None:
    limits = [_number(folder / "memory.limit_in_bytes") for folder in _v1_folders(root, "memory")]
    return min((limit for limit in limits if limit is not None and limit < _V1_UNLIMITED_BYTES), default=None)


def _v1_folders(root: Path, controller: str) -> Iterator[Path]:
    """From this process's group upwards. In a container the path is the host's, but the mount is its own group."""
    for line in (_text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            mount = root / "sys/fs/cgroup" / controllers
            own = mount / path.lstrip("/")
            yield own
            yield from (folder for folder in own.parents if folder.is_relative_to(mount))


def _ort_version() -> str | None:
    """The version of the loaded library, if its file name has one."""
    named = os.environ.get("ORT_DYLIB_PATH")
    if named:
        found = re.search(r"\.so\.(\d[\d.]*)$", Path(named).resolve().name)
        return found[1] if found else None
    try:
        return metadata.version("onnxruntime")
    except metadata.PackageNotFoundError:
        return None


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text else None


def _text(path: Path) -> str | None:
    """A file's content; None if it is missing or unreadable."""
    try:
        return path.read_text().strip()
    except OSError:
        return None
